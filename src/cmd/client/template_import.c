/* template_import.c - see template_import.h. The archive comes from a file, from tar(1) or from
 * mmdebstrap(1), and goes out as the body of one request.
 *
 * A program that fails breaks the request off in the middle, so the server never makes a
 * template of half an archive. */
#include "cmd/client/template_import.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/client/member.h"
#include "cmd/client/progress.h"
#include "lib/base/str.h"

/* ---- the interpreter. A template whose start command is the interpreter's server, on top of
 * another template. With --science that other one is a Debian made on this machine, with
 * Python's usual packages. */

#define TEMPLATE_INTERPRETER_NAME_SIZE 256
#define SUITE "bookworm"
#define PROGRAM "/opt/cordon/bin/cordon-interpreter"
#define TEMPLATE_INTERPRETER_PACKAGES                                              \
	"python3,python3-ipython,python3-numpy,python3-pandas,python3-matplotlib," \
	"python3-pil,python3-scipy,python3-sympy,python3-pip,python3-requests"

/* The Debian below. Its name is that of the template with "-debian". */
static int make_debian(struct api_call *a, const struct template_interpreter *t, const char *name,
		       char ret_from[TEMPLATE_INTERPRETER_NAME_SIZE], struct err *e)
{
	char base[TEMPLATE_INTERPRETER_NAME_SIZE + 8], packages[4096];
	const struct template_import import = { .name = base };
	OWN_JSON *made = NULL;

	(void)snprintf(base, sizeof(base), "%.*s-debian", (int)strcspn(name, ":"), name);
	(void)snprintf(packages, sizeof(packages), TEMPLATE_INTERPRETER_PACKAGES "%s%.3000s",
		       t->include == NULL ? "" : ",", t->include == NULL ? "" : t->include);
	(void)fprintf(stderr, "cordon: making %s: this downloads some 150 MiB of packages\n", base);
	if (template_import_debian(a, &import, t->suite == NULL ? SUITE : t->suite, packages,
				   t->mirror, &made, e) < 0)
		return -1;
	(void)snprintf(ret_from, TEMPLATE_INTERPRETER_NAME_SIZE, "%.*s",
		       TEMPLATE_INTERPRETER_NAME_SIZE - 1, base);
	return 0;
}

/* The name follows from the base, if none is given. The interpreter restarts when it ends, and
 * the template is ready when its own check succeeds. */
int template_interpreter(struct api_call *a, const struct template_interpreter *t, json_t **ret,
			 struct err *e)
{
	char from[TEMPLATE_INTERPRETER_NAME_SIZE], name[TEMPLATE_INTERPRETER_NAME_SIZE];
	OWN_JSON *body = NULL;
	struct target target;

	if (t->science && t->from != NULL)
		return err_set(e, ERR_INVALID, "--science: not with --from");
	str_copy(from, t->from == NULL ? "host" : t->from);
	if (t->name != NULL)
		str_copy(name, t->name);
	else if (t->science)
		(void)snprintf(name, sizeof(name), "science");
	else
		(void)snprintf(name, sizeof(name), "%.*s-interpreter",
			       (int)strcspn(from, ":") < 200 ? (int)strcspn(from, ":") : 200, from);
	if (t->science && make_debian(a, t, name, from, e) < 0)
		return -1;
	body = json_pack("{s:s, s:s, s:s, s:s, s:b, s:b}", "name", name, "from", from,
			 "start_command", PROGRAM " serve", "ready_command", PROGRAM " ready",
			 "start_restart", 1, "interpreter", 1);
	if (body == NULL)
		return err_set(e, ERR_INVALID, "--name or --from: not text");
	target_init(&target, "/v1/templates");
	return api_call_json(a, "POST", &target, body, ret, e);
}

#define NAME_SIZE 256
#define PACKAGES "ca-certificates,sudo" /* of every Debian: what sessions expect */
#define CHANGED 1			/* tar(1): a file changed while it was read */

/* Where the archive comes from: a file, or a program that writes it. fd is owned. It is closed
 * by send_archive(), and by the caller before that. */
struct template_import_source {
	int fd;
	pid_t child;	  /* 0: none */
	char program[16]; /* its name */
	struct progress progress;
};

/* The program has written all it had. If it failed, the request is broken off, so that the server
 * makes no template of half an archive. */
static int template_import_finish(struct template_import_source *s, struct err *e)
{
	int status = 0;

	if (s->child == 0)
		return 0;
	while (waitpid(s->child, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, "wait for %s", s->program);
	s->child = 0;
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return err_set(e, ERR_UNSUPPORTED, "%s is not installed on this machine",
			       s->program);
	if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0 && !(WEXITSTATUS(status) == CHANGED &&
								 strcmp(s->program, "tar") == 0)))
		return err_set(e, ERR_SYSTEM, "%s has failed", s->program);
	return 0;
}

/* A body source. At the end of input the program's exit status decides: a failure becomes an
 * error of the body, and the request breaks off in the middle. */
static ssize_t template_import_feed(void *arg, void *buf, size_t cap, struct err *e)
{
	struct template_import_source *s = arg;
	ssize_t n;

	do
		n = read(s->fd, buf, cap);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_sys(e, "read %.150s", s->progress.name);
	if (n == 0)
		return template_import_finish(s, e) < 0 ? -1 : 0;
	progress_add(&s->progress, (size_t)n);
	return n;
}

/* Start a program whose output is `to`. */
static int template_import_start(struct template_import_source *s, char *const argv[], int to,
				 struct err *e)
{
	str_copy(s->program, argv[0]); /* argv ends with the caller */
	(void)fflush(stdout);
	s->child = fork();
	if (s->child < 0)
		return err_sys(e, "fork");
	if (s->child == 0) {
		(void)signal(SIGPIPE, SIG_DFL); /* if the server refuses, tar ends without words */
		/* mmdebstrap sends SIGHUP to its whole process group at the end. */
		(void)setpgid(0, 0);
		if (dup2(to, STDOUT_FILENO) >= 0)
			(void)execvp(argv[0], argv);
		_exit(127);
	}
	return 0;
}

/* ---- the request
 *
 * The archive is the body and the properties are in the query, so the server can begin to unpack
 * before it has all. */

/* Success has an object. The caller owns it. */
static int answer_of(struct api_call *a, json_t **ret, struct err *e)
{
	OWN_MEM char *text = NULL;
	size_t len = 0;

	if (client_read_all(a->client, API_CALL_ANSWER_MAX, &text, &len, e) < 0)
		return -1;
	*ret = json_loadb(text, len, 0, NULL);
	return *ret == NULL ? err_set(e, ERR_SYSTEM, "the server's answer is not JSON") : 0;
}

/* len: 0 if it is not known. Take over the source. */
static int send_archive(struct api_call *a, const struct template_import *t, const char *name,
			struct template_import_source *s, uint64_t len, json_t **ret, struct err *e)
{
	struct client_request r = { .method = "POST",
				    .type = "application/x-tar",
				    .source = template_import_feed,
				    .source_arg = s,
				    .source_len = len };
	struct target target;
	struct err unused;
	int result;

	target_init(&target, "/v1/templates");
	target_query(&target, "name", name);
	target_query(&target, "tag", t->tag);
	target_query(&target, "user", t->user);
	target_query(&target, "workdir", t->workdir);
	target_query(&target, "public", t->public ? "true" : NULL);
	progress_init(&s->progress, name, len == 0 ? UINT64_MAX : len);
	result = api_call_send(a, &r, &target, e);
	progress_end(&s->progress);
	fd_close(s->fd);
	IGNORED(template_import_finish(s, &unused),
		"reported before, or the server has answered early");
	return result < 0 ? -1 : answer_of(a, ret, e);
}

/* ---- requests */

/* "dir/Thing.tar.gz" is "thing". */
static void default_name(const char *path, char ret[NAME_SIZE])
{
	static const char *const endings[] = { ".gz",  ".zst", ".xz",	 ".tgz",
					       ".tar", ".oci", ".docker" };
	size_t n = strlen(path), start;

	while (n > 1 && path[n - 1] == '/')
		n--;
	for (start = n; start > 0 && path[start - 1] != '/';)
		start--;
	n = n - start < NAME_SIZE ? n - start : NAME_SIZE - 1;
	memcpy(ret, path + start, n);
	ret[n] = '\0';
	for (size_t i = 0; i < COUNT(endings); i++) {
		size_t len = strlen(endings[i]);

		n = strlen(ret);
		if (n > len && strcmp(ret + n - len, endings[i]) == 0)
			ret[n - len] = '\0';
	}
	for (char *c = ret; *c != '\0'; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + ('a' - 'A'));
}

/* tar(1) keeps numeric owners, capabilities and user attributes, because the template is a root
 * file system. It stays on one file system, so /proc and the like are left out. The words are
 * arrays, because execvp() takes them as writable. */
static int open_directory(const char *path, struct template_import_source *s, struct err *e)
{
	char dir[4096];
	char *const argv[] = { (char[]){ "tar" },
			       (char[]){ "--create" },
			       (char[]){ "--numeric-owner" },
			       (char[]){ "--sparse" },
			       (char[]){ "--format=posix" },
			       (char[]){ "--xattrs" },
			       (char[]){ "--xattrs-include=user.*" },
			       (char[]){ "--xattrs-include=security.capability" },
			       (char[]){ "--one-file-system" },
			       (char[]){ "--file=-" },
			       (char[]){ "--directory" },
			       dir,
			       (char[]){ "." },
			       NULL };

	int ends[2];

	str_copy(dir, path);
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, "pipe");
	OWN_FD from = ends[0];
	OWN_FD to = ends[1];
	if (template_import_start(s, argv, to, e) < 0)
		return -1;
	s->fd = TAKE_FD(from);
	return 0;
}

/* The name of a file or directory becomes the name of the template. A pipe has no length, and
 * its end is the end of the body. */
int template_import(struct api_call *a, const struct template_import *t, const char *path,
		    json_t **ret, struct err *e)
{
	struct template_import_source s = { .fd = -1 };
	char name[NAME_SIZE];
	uint64_t len = 0;
	struct stat st;

	if (stat(path, &st) < 0)
		return err_sys(e, "%.150s", path);
	if (S_ISDIR(st.st_mode)) {
		if (open_directory(path, &s, e) < 0)
			return -1;
	} else {
		s.fd = open(path, O_RDONLY | O_CLOEXEC);
		if (s.fd < 0)
			return err_sys(e, "%.150s", path);
		len = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	}
	default_name(path, name);
	return send_archive(a, t, t->name != NULL ? t->name : name, &s, len, ret, e);
}

/* One word of small letters: it becomes an argument of mmdebstrap and must not look like an
 * option. */
static bool is_suite(const char *text)
{
	size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	return n > 0 && text[n] == '\0' && text[0] != '-';
}

/* A file without a name: mmdebstrap writes nothing for minutes, and no server waits that long for a
 * body. */
static int open_temporary(struct err *e)
{
	int fd = open("/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	return fd < 0 ? err_sys(e, "make a temporary file") : fd;
}

/* Fail for a key that may not import: before minutes of work, not after it. */
static int check_key(struct api_call *a, struct err *e)
{
	struct target t;

	target_init(&t, "/v1/keys"); /* for the same keys */
	target_query(&t, "limit", "1");
	return api_call_json(a, "GET", &t, NULL, NULL, e);
}

/* mmdebstrap writes the archive into a temporary file, which is sent when it is whole. The key
 * is checked first, because the download takes minutes. */
int template_import_debian(struct api_call *a, const struct template_import *t, const char *suite,
			   const char *include, const char *mirror, json_t **ret, struct err *e)
{
	struct template_import_source s = { .fd = -1 };
	struct stat st;
	char name[NAME_SIZE], packages[4096], release[128], place[1024];
	char *const argv[] = { (char[]){ "mmdebstrap" },
			       (char[]){ "--variant=minbase" },
			       (char[]){ "--format=tar" },
			       packages,
			       release,
			       (char[]){ "-" },
			       mirror == NULL ? NULL : place,
			       NULL };
	int n = snprintf(packages, sizeof(packages), "--include=" PACKAGES "%s%s",
			 include == NULL ? "" : ",", include == NULL ? "" : include);

	if (!is_suite(suite) || strlen(suite) >= sizeof(release) || n < 0 ||
	    (size_t)n >= sizeof(packages) ||
	    (mirror != NULL && (mirror[0] == '-' || strlen(mirror) >= sizeof(place))))
		return err_set(e, ERR_INVALID, "malformed suite, packages or mirror");
	str_copy(release, suite);
	str_copy(place, mirror == NULL ? "" : mirror);
	(void)snprintf(name, sizeof(name), "debian-%s", suite);
	if (check_key(a, e) < 0)
		return -1;
	s.fd = open_temporary(e);
	if (s.fd < 0)
		return -1;
	if (template_import_start(&s, argv, s.fd, e) < 0 || template_import_finish(&s, e) < 0 ||
	    fstat(s.fd, &st) < 0 || lseek(s.fd, 0, SEEK_SET) < 0) {
		fd_close(s.fd);
		return e->code == ERR_UNSUPPORTED
			       ? err_set(e, ERR_UNSUPPORTED,
					 "mmdebstrap is not installed on this machine (apt install "
					 "mmdebstrap)")
			       : -1;
	}
	return send_archive(a, t, t->name != NULL ? t->name : name, &s, (uint64_t)st.st_size, ret,
			    e);
}
