/* verb_cp.c - cordon cp: copies one file as bytes, or a directory as a tar archive (transfer.c,
 * pack.c), between this machine and a session. */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/target.h"
#include "cmd/client/show_json.h"
#include "cmd/client/transfer.h"
#include "cmd/client/verbs.h"

/* The bound protects this machine's disk from a session that sends without end. Copies into a
 * session have the session's own limits. */
struct cp_fields {
	struct args_common common;
	const char *user;
	uint64_t max_size;
};

#define MAX_SIZE (16ULL << 30)

/* clang-format off */
static const struct option options[] = {
	{ "user", "NAME", OPTION_TEXT, offsetof(struct cp_fields, user), 0, 0,
	  "user that reads and writes in the session (default: user)", 'u' },
	{ "max-size", "SIZE", OPTION_BYTES, offsetof(struct cp_fields, max_size), 0, UINT64_MAX,
	  "most bytes to copy out of a session, holes in files included (default 16G; 0: no limit)" },
	ARGS_COMMON(struct cp_fields),
};
/* clang-format on */

/* As cp(1): a copy to a directory goes into it, under its own name. */
static int cp_into(const char *directory, const char *source, char *ret, size_t cap, struct err *e)
{
	char name[NAME_MAX + 1];
	int n;

	if (!session_path_name(source, name, sizeof(name)))
		n = snprintf(ret, cap, "%s", directory);
	else
		n = snprintf(ret, cap, "%s%s%s", directory,
			     directory[0] != '\0' && directory[strlen(directory) - 1] == '/' ? ""
											     : "/",
			     name);
	if (n < 0 || (size_t)n >= cap)
		return err_set(e, ERR_INVALID, "the path is too long");
	return 0;
}

/* As cp(1): a trailing slash or an existing directory takes the source under its name. Standard
 * input has no name, so it becomes the target itself. */
static int send_path(struct api_call *a, const struct transfer_place *asked, const char *from,
		     json_t **ret, struct err *e)
{
	struct transfer_place p = *asked;
	enum transfer_kind there;
	char path[PATH_MAX];
	struct stat st;
	OWN_FD fd = -1;

	if (strcmp(from, "-") == 0)
		return transfer_send_file(a, &p, STDIN_FILENO, "stdin", ret, e);
	if (stat(from, &st) < 0)
		return err_sys(e, "%.150s", from);
	if (transfer_stat(a, &p, &there, NULL, e) < 0)
		return -1;
	if (there == TRANSFER_DIRECTORY ||
	    (p.path[0] != '\0' && p.path[strlen(p.path) - 1] == '/')) {
		if (cp_into(p.path, from, path, sizeof(path), e) < 0)
			return -1;
		p.path = path;
	}
	if (S_ISDIR(st.st_mode))
		return transfer_send_tree(a, &p, from, ret, e);
	fd = open(from, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? err_sys(e, "%.150s", from) : transfer_send_file(a, &p, fd, from, ret, e);
}

/* The kind in the session decides between a file and a tree. A tree on stdout is an archive. */
static int get_path(struct api_call *a, const struct transfer_place *p, const char *to,
		    struct err *e)
{
	enum transfer_kind there;
	char path[PATH_MAX];
	struct stat st;

	if (transfer_stat(a, p, &there, NULL, e) < 0)
		return -1;
	if (there == TRANSFER_MISSING)
		return -1; /* e has the server's message */
	if (strcmp(to, "-") == 0)
		to = NULL;
	else if (stat(to, &st) == 0 && S_ISDIR(st.st_mode)) {
		if (cp_into(to, p->path, path, sizeof(path), e) < 0)
			return -1;
		to = path;
	}
	if (there == TRANSFER_DIRECTORY)
		return transfer_get_tree(a, p, to, e);
	return transfer_get_file(a, p, to, e);
}

/* The caller has checked that exactly one word names a session. */
static int cp_copy(const struct cp_fields *f, const char *from, const char *to, json_t **ret,
		   struct err *e)
{
	OWN_API_CALL a = { 0 };
	struct transfer_place p = { .user = f->user, .max_bytes = f->max_size };
	char word[ID_MATCH_ID_MAX], id[ID_MATCH_ID_MAX];
	bool sends = session_path_split(to, word, sizeof(word), &p.path);

	if (!sends)
		(void)session_path_split(from, word, sizeof(word), &p.path);
	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, word, id, e) < 0)
		return -1;
	p.session = id;
	return sends ? send_path(&a, &p, from, ret, e) : get_path(&a, &p, to, e);
}

/* Nothing is printed without --json. */
static int cp_run(int argc, char **argv)
{
	static struct cp_fields f = { .max_size = MAX_SIZE };
	static struct args_words words;
	OWN_JSON *made = NULL;
	struct err e = { 0 };
	char word[ID_MATCH_ID_MAX];
	const char *path;
	int code = args_read(&verb_cp, argc, argv, &f, &words, 2, 2);

	if (code != ARGS_GO)
		return code;
	if (session_path_split(words.at[0], word, sizeof(word), &path) ==
	    session_path_split(words.at[1], word, sizeof(word), &path))
		return args_wrong(&verb_cp, "exactly one of the two must be SESSION:PATH");
	if (cp_copy(&f, words.at[0], words.at[1], &made, &e) < 0)
		return args_fail(&e);
	if (f.common.json && made != NULL)
		show_json(made, true, stdout);
	return ARGS_OK;
}

const struct verb verb_cp = {
	.name = "cp",
	.usage = "[options] FROM TO",
	.summary = "Copies a file or directory into a session or out of it.",
	.text = "One of the two is SESSION:PATH, where a relative PATH begins at the user's home.\n"
		"If TO is a directory, the copy goes into it. - is stdin or stdout; a directory "
		"is\n"
		"written there as a tar archive. A local name with a colon: ./a:b.\n",
	.examples = "cordon cp ./project ID:work                 # a directory\n"
		    "cordon cp ID:out.csv .\n"
		    "cordon cp ID:out.csv - | head\n",
	.options = options,
	.noptions = COUNT(options),
	.run = cp_run,
};
