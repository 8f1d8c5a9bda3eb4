/* package_warm.c - see package_warm.h. Whatever happens, the session is deleted. */
#include "package_warm.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compose.h"
#include "create.h"
#include "id_match.h"
#include "member.h"
#include "own.h"
#include "show.h"
#include "transfer.h"
#include "units.h"

#define ROWS_MAX 100000
#define SHOWN_MAX 2000 /* bytes of a failed command's output */
#define NOT_FOUND 127  /* exit code of a shell that did not find the program */

#define NPM_OPTIONS \
	"--ignore-scripts --no-audit --no-fund --no-update-notifier --cache /tmp/cordon-warm"

/* In the order in which they are looked for. */
static const struct lockfile {
	const char *pattern;  /* of the file's name */
	const char *registry; /* by default */
	const char *beside;   /* a file of the same folder that the command needs; NULL: none */
	const char *command;  /* run in the folder of both, with the name as $1 */
} lockfiles[] = {
	{ "package-lock.json", "npm", "package.json", "npm ci " NPM_OPTIONS },
	{ "npm-shrinkwrap.json", "npm", "package.json", "npm ci " NPM_OPTIONS },
	{ "yarn.lock", "npm", "package.json",
	  "$(command -v yarn || command -v yarnpkg || echo yarn) install --frozen-lockfile "
	  "--ignore-scripts --non-interactive" },
	{ "pnpm-lock.yaml", "npm", NULL, "pnpm fetch" },
	{ "Cargo.lock", "cargo", "Cargo.toml",
	  "mkdir -p src && touch src/lib.rs src/main.rs && cargo fetch --locked" },
	{ "go.sum", "go", "go.mod", "go mod download" },
	{ "*requirements*.txt", "pypi", NULL,
	  "pip3 download --no-deps --no-cache-dir --disable-pip-version-check -d /tmp/cordon-warm "
	  "-r \"$1\"" },
};

static const struct lockfile *find(const char *name)
{
	for (size_t i = 0; i < COUNT(lockfiles); i++)
		if (fnmatch(lockfiles[i].pattern, name, 0) == 0)
			return &lockfiles[i];
	return NULL;
}

/* Into the home of the session's user, which is where commands start. */
static int send_file(struct api_call *a, const char *session, const char *folder, const char *name,
		     struct err *e)
{
	struct transfer_place to = { .session = session, .path = name };
	OWN_JSON *entry = NULL;
	char path[PATH_MAX];
	OWN_FD fd = -1;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return err_set(e, ERR_INVALID, "%.60s: the path is too long", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, "%.200s", path);
	return transfer_send_file(a, &to, fd, name, &entry, e);
}

static json_t *session_body(const struct package_warm *w, const struct lockfile *l, struct err *e)
{
	OWN_JSON *body = json_object();

	if (compose_text(body, "template", "--template", w->template, e) < 0 ||
	    compose_network(body, "network", w->policy, w->allow, e) < 0)
		return NULL;
	if (json_object_get(body, "network") == NULL)
		(void)json_object_set_new(body, "network",
					  json_pack("{s:i,s:{s:[s]}}", "version", 1, "packages",
						    "registries", l->registry));
	return json_incref(body);
}

static void print_failure(const json_t *execution)
{
	const char *text = member_text(execution, "stderr", "");
	size_t n = strlen(text);

	if (n == 0) {
		text = member_text(execution, "stdout", "");
		n = strlen(text);
	}
	show_lines(text + (n > SHOWN_MAX ? n - SHOWN_MAX : 0), stderr);
}

static int run_manager(struct api_call *a, const struct package_warm *w, const struct lockfile *l,
		       const char *session, const char *name, struct err *e)
{
	OWN_JSON *body = json_pack("{s:[s,s,s,s,s]}", "argv", "sh", "-c", l->command, "sh", name);
	OWN_JSON *execution = NULL;
	struct target t;

	if (body == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	if (compose_time(body, "timeout", w->timeout_ms, e) < 0 ||
	    compose_pairs(body, "env", "--env", w->env, e) < 0)
		return -1;
	id_match_target(&t, session, "executions");
	target_query(&t, "wait", "true");
	if (api_call_json(a, "POST", &t, body, &execution, e) < 0)
		return -1;
	if (json_is_integer(json_object_get(execution, "exit_code")) &&
	    member_number(execution, "exit_code", 1) == 0)
		return 0;
	print_failure(execution);
	if (member_number(execution, "exit_code", 1) == NOT_FOUND)
		return err_set(e, ERR_SYSTEM,
			       "the template has no package manager for %.60s (--template): %.100s",
			       name, l->command);
	return err_set(e, ERR_SYSTEM, "the package manager failed: %.100s", l->command);
}

/* What it got, as far as it got. */
static int print_result(struct api_call *a, const char *session, struct err *e)
{
	uint64_t n = 0, bytes = 0, hits = 0;
	OWN_JSON *list = NULL;
	struct target t;
	char size[24];

	id_match_target(&t, session, "packages");
	if (api_call_pages(a, &t, "packages", NULL, ROWS_MAX, &list, e) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *row = json_array_get(list, i);

		if (member_number(row, "downloads", 0) > 0) {
			n++;
			bytes += member_number(row, "bytes", 0);
			hits += strcmp(member_text(row, "cache", ""), "hit") == 0;
			continue;
		}
		show_text(member_text(row, "result", "?"), stdout);
		(void)putchar(' ');
		show_text(member_text(row, "name", "?"), stdout);
		(void)putchar(' ');
		show_text(member_text(row, "version", "-"), stdout);
		(void)putchar(' ');
		show_text(member_text(row, "reason", ""), stdout);
		(void)putchar('\n');
	}
	units_format_bytes(bytes, size, sizeof(size));
	(void)printf("%llu packages of %s, %llu of them were in the cache before\n",
		     (unsigned long long)n, size, (unsigned long long)hits);
	return 0;
}

static int use(struct api_call *a, const struct package_warm *w, const struct lockfile *l,
	       const char *session, const char *path, struct err *e)
{
	char folder_of[PATH_MAX], name_of[PATH_MAX];
	const char *folder, *name;
	struct err later = { 0 };
	int result;

	(void)snprintf(folder_of, sizeof(folder_of), "%s", path);
	(void)snprintf(name_of, sizeof(name_of), "%s", path);
	folder = dirname(folder_of);
	name = basename(name_of);
	if (send_file(a, session, folder, name, e) < 0 ||
	    (l->beside != NULL && send_file(a, session, folder, l->beside, e) < 0))
		return -1;
	result = run_manager(a, w, l, session, name, e);
	if (print_result(a, session, &later) < 0 && result == 0) {
		*e = later;
		return -1;
	}
	return result;
}

/* Signals that could end this program before the session is deleted wait until then. */
static void block_signals(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
}

int package_warm(struct api_call *a, const struct package_warm *w, const char *path, struct err *e)
{
	const char *slash = strrchr(path, '/');
	const struct lockfile *l = find(slash == NULL ? path : slash + 1);
	OWN_JSON *session = NULL;
	OWN_JSON *body = NULL;
	struct err later = { 0 };
	struct target t;
	int result;

	if (l == NULL)
		return err_set(
			e, ERR_INVALID,
			"%.200s: no lockfile that is known: package-lock.json, "
			"npm-shrinkwrap.json, yarn.lock, pnpm-lock.yaml, Cargo.lock, go.sum, "
			"requirements.txt",
			path);
	if (access(path, R_OK) < 0)
		return err_sys(e, "%.200s", path);
	body = session_body(w, l, e);
	if (body == NULL)
		return -1;
	block_signals();
	if (create_session(a, body, &session, e) < 0)
		return -1;
	result = use(a, w, l, member_text(session, "id", ""), path, e);
	id_match_target(&t, member_text(session, "id", ""), NULL);
	if (api_call_json(a, "DELETE", &t, NULL, NULL, &later) < 0 && result == 0) {
		*e = later;
		return err_wrap(e, "the session could not be deleted");
	}
	return result;
}
