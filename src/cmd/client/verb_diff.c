/* verb_diff.c - cordon diff: the changes in a session's file system, one path in a line. The server
 * lists all changes. Unrequested ones are left out here. */
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "cmd/client/member.h"
#include "cmd/client/id_match.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

/* The home of the user in every session. */
#define HOME "/home/user"

struct diff_fields {
	struct args_common common;
	struct option_list exclude;
};

/* clang-format off */
static const struct option options[] = {
	{ "exclude", "NAME", OPTION_LIST, offsetof(struct diff_fields, exclude), 0, 0,
	  "leaves out names such as .git or '*.pyc', and all below them" },
	ARGS_COMMON(struct diff_fields),
};
/* clang-format on */

/* Is one of the path's parts excluded? Patterns match single parts, so a name excludes
 * everything below it. */
static bool is_excluded(const struct diff_fields *f, const char *path)
{
	while (*path != '\0') {
		size_t n = strcspn(path, "/");
		char part[NAME_MAX + 1];

		(void)snprintf(part, sizeof(part), "%.*s", (int)n, path);
		for (size_t i = 0; i < f->exclude.n; i++)
			if (n > 0 && fnmatch(f->exclude.items[i], part, 0) == 0)
				return true;
		path += n + (path[n] == '/');
	}
	return false;
}

/* The path itself, or one below it. wanted may be relative to the home. */
static bool is_below(const char *path, const char *wanted)
{
	char whole[PATH_MAX];
	size_t n;

	(void)snprintf(whole, sizeof(whole), "%s%s", wanted[0] == '/' ? "" : HOME "/", wanted);
	n = strlen(whole);
	while (n > 0 && whole[n - 1] == '/')
		n--;
	return strncmp(path, whole, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static bool is_wanted(const struct diff_fields *f, const struct args_words *words, const char *path)
{
	bool below = words->n == 1;

	for (size_t i = 1; i < words->n; i++)
		below |= is_below(path, words->at[i]);
	return below && !is_excluded(f, path);
}

/* From the end, because an element that goes away moves those behind it. */
static void leave_out(const struct diff_fields *f, const struct args_words *words, json_t *changes)
{
	for (size_t i = json_array_size(changes); i-- > 0;)
		if (!is_wanted(f, words, member_text(json_array_get(changes, i), "path", "")))
			(void)json_array_remove(changes, i);
}

/* Filters apply to the printed list only. The server's list has a bound, and stderr says if it
 * was reached. */
static int diff_run(int argc, char **argv)
{
	static struct diff_fields f;
	static struct args_words words;
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_diff, argc, argv, &f, &words, 1, ARGS_WORDS_MAX);

	if (code != ARGS_GO)
		return code;
	if (session_part_get(&f.common, words.at[0], "diff", &answer, &e) < 0)
		return args_refused(&verb_diff, &e);
	leave_out(&f, &words, json_object_get(answer, "changes"));
	if (f.common.json) {
		show_json(answer, true, stdout);
		return ARGS_OK;
	}
	for (size_t i = 0; i < json_array_size(member_group(answer, "changes")); i++) {
		const json_t *c = json_array_get(member_group(answer, "changes"), i);
		const char *kind = member_text(c, "kind", "?");

		(void)putchar(strcmp(kind, "added") == 0     ? 'A'
			      : strcmp(kind, "changed") == 0 ? 'C'
			      : strcmp(kind, "deleted") == 0 ? 'D'
							     : '?');
		(void)putchar(' ');
		show_text(member_text(c, "path", "?"), stdout);
		(void)putchar('\n');
	}
	if (member_bool(answer, "truncated"))
		(void)fputs("cordon: there are more changes than the server lists\n", stderr);
	return ARGS_OK;
}

const struct verb verb_diff = {
	.name = "diff",
	.usage = "[options] SESSION [PATH...]",
	.summary = "Prints what was added (A), changed (C) and deleted (D) in a session.",
	.text = "With PATH only it and what is below it; a relative one is below " HOME ".\n"
		"For a session that has ended: only if it was created with --keep-diff.\n",
	.examples = "cordon diff ID\n"
		    "cordon diff ID project --exclude .git\n",
	.options = options,
	.noptions = COUNT(options),
	.run = diff_run,
};
