/* verb_diff.c - cordon diff: what changed in a session's file system, one path in a line. */
#include <stdio.h>
#include <string.h>

#include "member.h"
#include "session_part.h"
#include "show.h"
#include "show_json.h"
#include "verbs.h"

struct fields {
	struct args_common common;
};

static const struct option options[] = {
	ARGS_COMMON(struct fields),
};

static int run(int argc, char **argv)
{
	static struct fields f;
	static struct args_words words;
	OWN_JSON *answer = NULL;
	struct err e = { 0 };
	int code = args_read(&verb_diff, argc, argv, &f, &words, 1, 1);

	if (code != ARGS_GO)
		return code;
	if (session_part_get(&f.common, words.at[0], "diff", &answer, &e) < 0)
		return args_fail(&e);
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
	.usage = "[options] SESSION",
	.summary = "Prints what was added (A), changed (C) and deleted (D) in a session.",
	.text = "For a session that has ended: only if it was created with --keep-diff.\n",
	.options = options,
	.noptions = COUNT(options),
	.run = run,
};
