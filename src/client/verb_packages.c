/* verb_packages.c - cordon packages: what a session got from package registries, as a table, as
 * JSON or as a bill of materials; and words in place of a session: pins, advisories, cache. */
#include <stdio.h>
#include <string.h>

#include "advisories_import.h"
#include "columns.h"
#include "id_match.h"
#include "member.h"
#include "lockfile_print.h"
#include "cache_admin.h"
#include "sbom.h"
#include "show_json.h"
#include "units.h"
#include "verbs.h"

#define ROWS_MAX 1000000 /* the server keeps fewer */

struct fields {
	struct args_common common;
	const char *sbom, *ecosystem, *result, *name, *execution, *state_dir;
	uint64_t to; /* this and what follows: of `packages cache` */
	const char *template;
	struct option_list policy, allow, env;
	uint64_t timeout_ms;
};

/* clang-format off */
static const struct option options[] = {
	{ "sbom", "cyclonedx|spdx", OPTION_WORD, offsetof(struct fields, sbom), 0, 0,
	  "prints a bill of materials of what was downloaded (cyclonedx if no form is named)" },
	{ "ecosystem", "NAME", OPTION_TEXT, offsetof(struct fields, ecosystem), 0, 0,
	  "only pypi, npm, apt, cargo, go, git, oci, maven or gem" },
	{ "result", "RESULT", OPTION_TEXT, offsetof(struct fields, result), 0, 0,
	  "only downloaded, refused, hidden, hash_mismatch, cut or failed" },
	{ "name", "NAME", OPTION_TEXT, offsetof(struct fields, name), 0, 0,
	  "only this package" },
	{ "execution", "ID", OPTION_TEXT, offsetof(struct fields, execution), 0, 0,
	  "only packages of this execution" },
	{ "state-dir", "DIR", OPTION_TEXT, offsetof(struct fields, state_dir), 0, 0,
	  "advisories: the server's state directory (default " ADVISORIES_STATE_DIR ")" },
	{ "to", "SIZE", OPTION_BYTES, offsetof(struct fields, to), 0, INT64_MAX,
	  "cache gc: how much may stay (0: nothing)" },
	{ "template", "NAME", OPTION_TEXT, offsetof(struct fields, template), 0, 0,
	  "cache warm: the template that has the package manager" },
	{ "policy", "FILE|PRESET,...", OPTION_LIST, offsetof(struct fields, policy), 0, 0,
	  "cache warm: the policy to fetch with (default: the public registry of the lockfile)" },
	{ "allow", "HOST[/PATH]", OPTION_LIST, offsetof(struct fields, allow), 0, 0,
	  "cache warm: also allows this host" },
	{ "env", "K=V", OPTION_LIST, offsetof(struct fields, env), 0, 0,
	  "cache warm: sets a variable of the package manager" },
	{ "timeout", "TIME", OPTION_TIME, offsetof(struct fields, timeout_ms), 1, 86400000,
	  "cache warm: how long it may take (default: 9m)" },
	ARGS_COMMON(struct fields),
};
/* clang-format on */

static const char *const heads[] = { "ECOSYSTEM", "NAME",  "VERSION", "RESULT",	   "SIZE",  "AGE",
				     "CODE",	  "CACHE", "RULE",    "EXECUTION", "REASON" };

/* Days, or hours of what is younger than two. */
static void write_age(uint64_t seconds, char *ret, size_t cap)
{
	bool hours = seconds < 172800; /* two days */

	(void)snprintf(ret, cap, "%llu%c", (unsigned long long)seconds / (hours ? 3600 : 86400),
		       hours ? 'h' : 'd');
}

static void add_row(struct columns *t, const json_t *row)
{
	char size[24] = "-", age[24] = "-";

	if (member_number(row, "bytes", 0) > 0)
		units_format_bytes(member_number(row, "size", 0), size, sizeof(size));
	if (json_is_integer(json_object_get(row, "age_s")))
		write_age(member_number(row, "age_s", 0), age, sizeof(age));
	columns_add(t, "%s", member_text(row, "ecosystem", "?"));
	columns_add(t, "%s", member_text(row, "name", "?"));
	columns_add(t, "%s", member_text(row, "version", "-"));
	columns_add(t, "%s%s", member_text(row, "result", "?"),
		    member_bool(row, "changed") ? " (changed)" : "");
	columns_add(t, "%s", size);
	columns_add(t, "%s", age);
	columns_add(t, "%s", member_text(row, "install_code", "-"));
	columns_add(t, "%s", member_text(row, "cache", "-"));
	columns_add(t, "%s", member_text(row, "rule", "-"));
	columns_add(t, "%s", member_text(row, "execution_id", "-"));
	columns_add(t, "%s", member_text(row, "reason", ""));
}

static int print(const struct fields *f, const char *session, const json_t *list, struct err *e)
{
	enum sbom_form form = SBOM_CYCLONEDX;
	OWN_JSON *whole = NULL;
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	if (f->sbom == NULL && !f->common.json) {
		for (size_t i = 0; i < json_array_size(list); i++)
			add_row(&t, json_array_get(list, i));
		columns_print(&t, SIZE_MAX, 0, stdout);
		return 0;
	}
	if (f->sbom != NULL && sbom_form_read(f->sbom, &form))
		whole = sbom_make(form, session, list);
	else
		whole = json_pack("{s:O}", "packages", list);
	if (whole == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	show_json(whole, true, stdout);
	return 0;
}

static void choose(const struct fields *f, struct target *t)
{
	if (f->ecosystem != NULL)
		target_query(t, "ecosystem", f->ecosystem);
	if (f->result != NULL)
		target_query(t, "result", f->result);
	if (f->name != NULL)
		target_query(t, "name", f->name);
	if (f->execution != NULL)
		target_query(t, "execution", f->execution);
}

/* cordon packages pins FILE */
static int run_pins(const char *path)
{
	struct err e = { 0 };

	return lockfile_print(path, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

/* cordon packages advisories [clear | import PATH...] */
static int run_advisories(const struct fields *f, const struct args_words *words)
{
	const char *state = f->state_dir != NULL ? f->state_dir : ADVISORIES_STATE_DIR;
	struct err e = { 0 };

	if (words->n == 1)
		return advisories_print(state, &e) < 0 ? args_fail(&e) : ARGS_OK;
	if (strcmp(words->at[1], "clear") == 0 && words->n == 2)
		return advisories_clear(state, &e) < 0 ? args_fail(&e) : ARGS_OK;
	if (strcmp(words->at[1], "import") != 0 || words->n < 3)
		return args_wrong(&verb_packages,
				  "advisories, advisories clear, or advisories import PATH...");
	return advisories_import(state, words->at + 2, words->n - 2, &e) < 0 ? args_fail(&e)
									     : ARGS_OK;
}

static int run_cache(const struct fields *f, const struct args_words *words)
{
	struct cache_admin_options o = {
		.common = &f->common,
		.to_bytes = f->to,
		.warm = { .template = f->template,
			  .policy = &f->policy,
			  .allow = &f->allow,
			  .env = &f->env,
			  .timeout_ms = f->timeout_ms },
	};

	return cache_admin_run(&verb_packages, &o, words->at + 1, words->n - 1);
}

static int run_session(const struct fields *f, const char *word)
{
	OWN_JSON *list = NULL;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	char id[ID_MATCH_ID_MAX];
	enum sbom_form form;
	struct target t;

	if (f->sbom != NULL && !sbom_form_read(f->sbom, &form))
		return args_wrong(&verb_packages, "--sbom: cyclonedx or spdx, not %.20s", f->sbom);
	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, &e) < 0 ||
	    id_match_session(&a, word, id, &e) < 0)
		return args_fail(&e);
	id_match_target(&t, id, "packages");
	choose(f, &t);
	if (api_call_pages(&a, &t, "packages", NULL, ROWS_MAX, &list, &e) < 0 ||
	    print(f, id, list, &e) < 0)
		return args_fail(&e);
	return ARGS_OK;
}

static int run(int argc, char **argv)
{
	static struct fields f = { .timeout_ms = 540000, .to = CACHE_ADMIN_NO_SIZE };
	static struct args_words words;
	int code = args_read(&verb_packages, argc, argv, &f, &words, 1, ARGS_WORDS_MAX);

	if (code != ARGS_GO)
		return code;
	if (strcmp(words.at[0], "cache") == 0)
		return run_cache(&f, &words);
	if (strcmp(words.at[0], "advisories") == 0)
		return run_advisories(&f, &words);
	if (words.n == 2 && strcmp(words.at[0], "pins") == 0)
		return run_pins(words.at[1]);
	if (words.n != 1)
		return args_wrong(&verb_packages, "one session, 'pins' and a lockfile, "
						  "'advisories', or 'cache'");
	return run_session(&f, words.at[0]);
}

const struct verb verb_packages = {
	.name = "packages",
	.usage = "[options] SESSION | pins FILE | advisories [clear | import PATH...] | "
		 "cache ls|gc|verify|warm FILE",
	.summary = "Lists the packages that a session asked registries for.",
	.text = "One line for each name and version: result (downloaded, refused, hidden, "
		"hash_mismatch, "
		"cut, "
		"failed),\n"
		"size, age at the time of the request, whether code runs at its installation, what "
		"the cache did,\n"
		"the rule and the execution of the record that decided, and the reason of a "
		"refusal. "
		"What was\n"
		"downloaded need not have been installed. Also after the session has ended.\n"
		"\n"
		"pins FILE prints what a lockfile (package-lock.json, yarn.lock, "
		"pnpm-lock.yaml,\n"
		"requirements.txt, poetry.lock, uv.lock, pylock.toml, Cargo.lock, go.sum, "
		"Gemfile.lock) has\n"
		"resolved, as the pins of a policy. It asks no server.\n"
		"\n"
		"advisories import PATH... reads reports of malicious packages (OSV JSON files, or "
		"folders of\n"
		"them) and puts the list into the state directory of the server on this machine, "
		"which has it in\n"
		"force within seconds. advisories clear drops the list, advisories alone prints "
		"how old it is.\n"
		"\n"
		"cache, for the operator: ls lists what the package cache holds, gc removes what "
		"was "
		"used least\n"
		"(until --to SIZE is left), verify hashes everything again. warm FILE fills it "
		"with what a\n"
		"lockfile names (package-lock.json, yarn.lock, pnpm-lock.yaml, requirements.txt, "
		"Cargo.lock,\n"
		"go.sum): a session runs the package manager "
		"of the lockfile, which the template must\n"
		"have, without installing anything.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
