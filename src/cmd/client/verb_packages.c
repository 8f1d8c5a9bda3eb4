/* verb_packages.c - cordon packages: a session's downloads from package registries, as a table, as
 * JSON or as a bill of materials, and words in place of a session: pins, advisories, cache. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cmd/client/cache_admin.h"
#include "cmd/client/columns.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/saved_file.h"
#include "cmd/client/sbom.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/io.h"
#include "lib/base/units.h"
#include "lib/packages/advisories.h"
#include "lib/packages/lock_json.h"
#include "lib/packages/osv.h"

/* ---- cordon packages advisories: reports of malicious packages become the one sorted file in
 * which cordon-egress looks packages up (lib/packages/advisories.h).
 *
 * The operator has a checkout of a collection of reports. Nothing is fetched here. All lines are
 * kept in memory, sorted, and written as one file, which replaces the old list whole or not at all.
 * The supervisor sees that the file has changed and gives it to cordon-egress.
 *
 * A report that cannot be read is named and counted, and the others still count: one broken file of
 * two hundred thousand must not keep an old list in force. */

#define ADVISORIES_STATE_DIR "/var/lib/cordon"

#define DEPTH_MAX 16
#define PLACE_MAX 4096

/* An import in progress. lines grows up to its bound, text is one buffer for all reports. */
struct packages_import {
	struct buf lines;
	char *text; /* of one report */
	size_t reports, broken, skipped;
};

/* One line of the list: ecosystem, name, version, id. The spaces between them are the form that
 * cordon-egress reads, so the order of the sorted lines is the order of its search. */
static int on_entry(void *arg, const struct osv_entry *entry, struct err *e)
{
	struct packages_import *m = arg;
	char line[PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX + OSV_ID_MAX + 16];
	int n = snprintf(line, sizeof(line), "%s %s %s %s\n", ecosystem_name(entry->ecosystem),
			 entry->name, entry->version, entry->id);

	return buf_add(&m->lines, line, (size_t)n, e);
}

/* A broken report gives a warning and not a failure, see above. Only a list beyond its bound
 * ends the import: a part of the reports in force would look like all of them. */
static int read_report(struct packages_import *m, const char *path, struct err *e)
{
	struct err why = { 0 };
	size_t skipped = 0;
	ssize_t n = io_read_file(AT_FDCWD, path, m->text, OSV_TEXT_MAX + 2, &why);

	m->reports++;
	if (n >= 0 && osv_read(m->text, (size_t)n, on_entry, m, &skipped, &why) == 0) {
		m->skipped += skipped;
		return 0;
	}
	if (m->lines.len == m->lines.cap)
		return err_set(e, ERR_LIMIT, "the list would have more than %u bytes",
			       ADVISORIES_MAX);
	m->broken++;
	(void)fputs("warning: ", stderr);
	show_text(path, stderr);
	(void)fputs(": ", stderr);
	show_text(why.msg, stderr);
	(void)fputc('\n', stderr);
	return 0;
}

/* A checkout has other files, too. */
static bool is_report(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

static int read_folder(struct packages_import *m, const char *path, unsigned depth, struct err *e);

/* Links are not followed: a checkout has none that count. named: the user gave this path, so its
 * name need not end with ".json". */
static int read_place(struct packages_import *m, const char *path, bool named, unsigned depth,
		      struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(e, "%.160s", path);
	if (S_ISDIR(st.st_mode))
		return read_folder(m, path, depth, e);
	return S_ISREG(st.st_mode) && (named || is_report(path)) ? read_report(m, path, e) : 0;
}

/* Hidden folders, such as that of git, are left out. The depth is bounded, because a folder may
 * be mounted into itself. */
static int read_folder(struct packages_import *m, const char *path, unsigned depth, struct err *e)
{
	DIR *folder = opendir(path);
	const struct dirent *at;
	char place[PLACE_MAX];
	int result = 0;

	if (folder == NULL || depth == DEPTH_MAX) {
		if (folder != NULL)
			(void)closedir(folder);
		return err_sys(e, "%.160s", path);
	}
	while (result == 0 && (at = readdir(folder)) != NULL) {
		if (at->d_name[0] == '.')
			continue;
		if (snprintf(place, sizeof(place), "%s/%s", path, at->d_name) >= (int)sizeof(place))
			result = err_set(e, ERR_LIMIT, "%.160s: the path is too long", path);
		else
			result = read_place(m, place, false, depth + 1, e);
	}
	(void)closedir(folder);
	return result;
}

/* ---- the list */

/* Lines end with '\n', which sorts before every byte of them. */
static int packages_compare(const void *one, const void *other)
{
	const char *a = *(const char *const *)one, *b = *(const char *const *)other;

	while (*a == *b && *a != '\n') {
		a++;
		b++;
	}
	return (unsigned char)*a - (unsigned char)*b;
}

/* Pointers into the text, sorted, each line once. *ret_n is their number. The caller frees the
 * list, and the lines stay where they are. */
static const char **sort_lines(const struct buf *lines, size_t *ret_n)
{
	const char *at = (const char *)lines->data, *end = at + lines->len;
	const char **list;
	size_t n = 0;

	for (const char *c = at; c < end; c++)
		n += *c == '\n';
	list = malloc((n + 1) * sizeof(*list));
	if (list == NULL)
		return NULL;
	*ret_n = 0;
	while (at < end) {
		list[(*ret_n)++] = at;
		at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
	}
	qsort(list, n, sizeof(*list), packages_compare);
	for (size_t i = *ret_n = 0; i < n; i++)
		if (i == 0 || packages_compare(&list[i], &list[*ret_n - 1]) != 0)
			list[(*ret_n)++] = list[i];
	return list;
}

/* The head has the time of the import and the number of lines. fsync() comes before the rename,
 * so a crash leaves the old list or the whole new one. */
static int write_list(struct saved_file *f, const char *const *list, size_t n, struct err *e)
{
	struct buf out = BUF_INIT(64U << 10);
	int result;

	buf_printf(&out, ADVISORIES_MAGIC "%lld %zu\n", (long long)time(NULL), n);
	result = saved_file_write(f, out.data, out.len, e);
	for (size_t i = 0; result == 0 && i < n; i++)
		result = saved_file_write(f, list[i], (size_t)(strchr(list[i], '\n') - list[i]) + 1,
					  e);
	buf_release(&out);
	if (result == 0 && fsync(f->fd) < 0)
		result = err_sys(e, "fsync");
	return result;
}

/* Mode 0644, since the list is no secret. */
static int packages_save(const struct packages_import *m, const char *state_dir, size_t *ret_n,
			 struct err *e)
{
	OWN_MEM const char **list = sort_lines(&m->lines, ret_n);
	struct saved_file f;
	char path[PLACE_MAX];
	int result;

	if (list == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	(void)snprintf(path, sizeof(path), "%s/advisories", state_dir);
	if (saved_file_open(&f, path, e) < 0)
		return -1;
	result = write_list(&f, list, *ret_n, e);
	if (result == 0)
		result = saved_file_commit(&f, 0644, e);
	saved_file_release(&f);
	return result;
}

/* A misspelt directory would otherwise get a list that no server reads. */
static int check_state(const char *state_dir, struct err *e)
{
	struct stat st;

	if (stat(state_dir, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return err_set(e, ERR_NOT_FOUND, "there is no state directory %.160s: --state-dir names it",
		       state_dir);
}

/* Read files and folders of OSV reports and replace the list in the state directory, writable
 * for operators only. Print the reports read. Without any entry the old list stays: an empty
 * checkout must not switch the protection off. */
static int advisories_import(const char *state_dir, const char *const *paths, size_t n,
			     struct err *e)
{
	struct packages_import m = { .text = malloc(OSV_TEXT_MAX + 2) };
	size_t lines = 0;
	int result = m.text == NULL ? err_set(e, ERR_SYSTEM, "out of memory")
				    : check_state(state_dir, e);

	buf_init(&m.lines, ADVISORIES_MAX - 4096);
	for (size_t i = 0; result == 0 && i < n; i++)
		result = read_place(&m, paths[i], true, 0, e);
	if (result == 0 && m.lines.len == 0)
		result = err_set(e, ERR_INVALID,
				 "no reports of malicious packages (OSV JSON) found: the list is "
				 "not changed");
	if (result == 0)
		result = packages_save(&m, state_dir, &lines, e);
	if (result == 0)
		(void)printf("%zu reports, %zu unreadable, %zu entries left out, %zu lines in "
			     "force\n",
			     m.reports, m.broken, m.skipped, lines);
	buf_release(&m.lines);
	free(m.text);
	return result;
}

/* Print how many lines the list has, and how old it is. Only the head is read. A link in the
 * place of the list is refused. */
static int advisories_print(const char *state_dir, struct err *e)
{
	char path[PLACE_MAX], head[128], *end;
	struct advisories list;
	OWN_FD fd = -1;
	long long hours;
	ssize_t n;

	if (check_state(state_dir, e) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/advisories", state_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		(void)puts("no advisories: cordon packages advisories import makes a list");
		return 0;
	}
	n = fd < 0 ? -1 : read(fd, head, sizeof(head));
	end = n < 0 ? NULL : memchr(head, '\n', (size_t)n);
	if (n < 0)
		return err_sys(e, "%.160s", path);
	if (end == NULL || !advisories_open(head, (size_t)(end - head) + 1, &list))
		return err_set(e, ERR_INVALID, "%.160s: not a list of advisories", path);
	hours = ((long long)time(NULL) - (long long)list.time_s) / 3600;
	(void)printf("%" PRIu64 " line%s, imported %lld hour%s ago\n", list.lines,
		     list.lines == 1 ? "" : "s", hours, hours == 1 ? "" : "s");
	return 0;
}

/* Remove the list. An import never removes it, so no import can switch the protection off. */
static int advisories_clear(const char *state_dir, struct err *e)
{
	char path[PLACE_MAX];

	if (check_state(state_dir, e) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/advisories", state_dir);
	if (unlink(path) == 0)
		(void)puts("the list of advisories is gone: no package is refused by it any more");
	else if (errno == ENOENT)
		(void)puts("no advisories");
	else
		return err_sys(e, "%.160s", path);
	return 0;
}

/* ---- cordon packages pins FILE: prints a lockfile as the pins of a policy, without a server.
 * The same reader serves --lockfile of `cordon create`. A person can so look at the pins before
 * a session has them. */

/* The text is bounded by LOCK_TEXT_MAX and freed here. */
static int read_pins(const char *file, json_t *pins, struct err *e)
{
	OWN_MEM char *text = malloc(LOCK_TEXT_MAX + 2);
	ssize_t n;

	if (text == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	n = io_read_file(AT_FDCWD, file, text, LOCK_TEXT_MAX + 2, e);
	return n < 0 ? -1 : lock_json_add(file, text, (size_t)n, pins, e);
}

/* Print { "pins": { "npm:left-pad": ["1.3.0 sha512:..."] } }. */
static int lockfile_print(const char *file, struct err *e)
{
	json_t *pins = json_object(), *whole;
	int r = pins == NULL ? err_set(e, ERR_SYSTEM, "out of memory") : read_pins(file, pins, e);

	whole = r < 0 ? NULL : json_pack("{s:O}", "pins", pins);
	if (whole != NULL)
		show_json(whole, true, stdout);
	json_decref(whole);
	json_decref(pins);
	return r;
}

#define ROWS_MAX 1000000 /* the server keeps fewer */

/* The fields of all words of the verb. Most are used by one word only. */
struct packages_fields {
	struct args_common common;
	const char *sbom, *ecosystem, *result, *name, *execution, *state_dir;
	uint64_t to; /* this and what follows: of `packages cache` */
	const char *template;
	struct option_list policy, allow, env;
	uint64_t timeout_ms;
};

/* clang-format off */
static const struct option options[] = {
	{ "sbom", "cyclonedx|spdx", OPTION_WORD, offsetof(struct packages_fields, sbom), 0, 0,
	  "prints a bill of materials of what was downloaded (cyclonedx if no form is named)" },
	{ "ecosystem", "NAME", OPTION_TEXT, offsetof(struct packages_fields, ecosystem), 0, 0,
	  "only pypi, npm, apt, cargo, go, git, oci, maven or gem", .values = "pypi npm apt cargo go git oci maven gem" },
	{ "result", "RESULT", OPTION_TEXT, offsetof(struct packages_fields, result), 0, 0,
	  "only downloaded, refused, hidden, hash_mismatch, cut or failed", .values = "downloaded refused hidden hash_mismatch cut failed" },
	{ "name", "NAME", OPTION_TEXT, offsetof(struct packages_fields, name), 0, 0,
	  "only this package" },
	{ "execution", "ID", OPTION_TEXT, offsetof(struct packages_fields, execution), 0, 0,
	  "only packages of this execution" },
	{ "state-dir", "DIR", OPTION_TEXT, offsetof(struct packages_fields, state_dir), 0, 0,
	  "advisories: the server's state directory (default " ADVISORIES_STATE_DIR ")" },
	{ "to", "SIZE", OPTION_BYTES, offsetof(struct packages_fields, to), 0, INT64_MAX,
	  "cache gc: how much may stay (0: nothing)" },
	{ "template", "NAME", OPTION_TEXT, offsetof(struct packages_fields, template), 0, 0,
	  "cache warm: the template that has the package manager", .values = "@templates" },
	{ "policy", "FILE|PRESET,...", OPTION_LIST, offsetof(struct packages_fields, policy), 0, 0,
	  "cache warm: the policy to fetch with (default: the public registry of the lockfile)", .values = "@presets" },
	{ "allow", "HOST[/PATH]", OPTION_LIST, offsetof(struct packages_fields, allow), 0, 0,
	  "cache warm: also allows this host" },
	{ "env", "K=V", OPTION_LIST, offsetof(struct packages_fields, env), 0, 0,
	  "cache warm: sets a variable of the package manager" },
	{ "timeout", "TIME", OPTION_TIME, offsetof(struct packages_fields, timeout_ms), 1, 86400000,
	  "cache warm: how long it may take (default: 9m)" },
	ARGS_COMMON(struct packages_fields),
};
/* clang-format on */

static const char *const heads[] = { "ECOSYSTEM", "NAME",  "VERSION", "RESULT",	   "SIZE",  "AGE",
				     "CODE",	  "CACHE", "RULE",    "EXECUTION", "REASON" };

/* Days, or hours below two days. */
static void write_age(uint64_t seconds, char *ret, size_t cap)
{
	bool hours = seconds < 172800; /* two days */

	(void)snprintf(ret, cap, "%llu%c", (unsigned long long)seconds / (hours ? 3600 : 86400),
		       hours ? 'h' : 'd');
}

/* One cell for each head. A size is shown only if bytes have come. "changed" marks a file with
 * another digest than before. */
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

/* --sbom counts before --json, since a bill of materials is JSON in any case. */
static int packages_print(const struct packages_fields *f, const char *session, const json_t *list,
			  struct err *e)
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

/* Filters of the server's list. A bill of materials with filters has only the rows that fit. */
static void packages_choose(const struct packages_fields *f, struct target *t)
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

/* cordon packages pins FILE. No key and no server are needed. */
static int run_pins(const char *path)
{
	struct err e = { 0 };

	return lockfile_print(path, &e) < 0 ? args_fail(&e) : ARGS_OK;
}

/* cordon packages advisories [clear | import FILE...] */
static int run_advisories(const struct packages_fields *f, const struct args_words *words)
{
	const char *state = f->state_dir != NULL ? f->state_dir : ADVISORIES_STATE_DIR;
	struct err e = { 0 };

	if (words->n == 1)
		return advisories_print(state, &e) < 0 ? args_fail(&e) : ARGS_OK;
	if (strcmp(words->at[1], "clear") == 0 && words->n == 2)
		return advisories_clear(state, &e) < 0 ? args_fail(&e) : ARGS_OK;
	if (strcmp(words->at[1], "import") != 0 || words->n < 3)
		return args_wrong(&verb_packages,
				  "advisories, advisories clear, or advisories import FILE...");
	return advisories_import(state, words->at + 2, words->n - 2, &e) < 0 ? args_fail(&e)
									     : ARGS_OK;
}

/* The words behind `cache` are checked by cache_admin_run(). */
static int run_cache(const struct packages_fields *f, const struct args_words *words)
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

/* --sbom is checked before the first request. */
static int run_session(const struct packages_fields *f, const char *word)
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
		return args_refused(&verb_packages, &e);
	id_match_target(&t, id, "packages");
	packages_choose(f, &t);
	if (api_call_pages(&a, &t, "packages", NULL, ROWS_MAX, &list, &e) < 0 ||
	    packages_print(f, id, list, &e) < 0)
		return args_refused(&verb_packages, &e);
	return ARGS_OK;
}

/* A first word that is no session's id selects another use: no id is "cache", "advisories" or
 * "pins". */
static int packages_run(int argc, char **argv)
{
	static struct packages_fields f = { .timeout_ms = 540000, .to = CACHE_ADMIN_NO_SIZE };
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
	.usage = "[options] SESSION | pins FILE | advisories | advisories clear | "
		 "advisories import FILE... | "
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
		"advisories import FILE... reads reports of malicious packages (OSV JSON files, or "
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
	.examples = "cordon packages --result refused ID\n"
		    "cordon packages --sbom=cyclonedx ID > bom.json\n"
		    "cordon packages pins package-lock.json\n",
	.options = options,
	.noptions = COUNT(options),
	.run = packages_run,
};
