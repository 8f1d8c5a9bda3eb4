/* complete.h - `cordon --complete WORD...`: the words that may stand at the end of a command line.
 * The completions of all shells (tools/completion) use it, so they follow the tables of options.
 * Each candidate is a line: the word, a tab, its description. A line with a colon asks the shell
 * for more: ":files", ":command" (programs and files), ":nospace" (the words continue). The shell
 * leaves out words that do not begin as the typed one. */
#pragma once

#include <stdio.h>

#include "cmd/base/options.h"

/* Values outside of all tables. All from COMPLETE_PRESETS on are known to cordon-client. */
enum complete_want {
	COMPLETE_NOTHING,
	COMPLETE_FILES,
	COMPLETE_COMMAND,
	COMPLETE_PRESETS, /* and files: --policy takes both */
	COMPLETE_SESSIONS,
	COMPLETE_EXECUTIONS, /* of the session in the first argument */
	COMPLETE_PLACES,     /* SESSION: and files */
	COMPLETE_TEMPLATES,
	COMPLETE_SNAPSHOTS,
	COMPLETE_VOLUMES,
	COMPLETE_MOUNTS, /* VOLUME: of --volume */
	COMPLETE_SECRETS,
	COMPLETE_WANTS
};

/* "@presets" and so on. The caller of complete_words() can hand a want to another program. */
const char *complete_name(enum complete_want want);
enum complete_want complete_find(const char *name);

/* Print a candidate, unless a shell could take the word for something else. */
void complete_print(const char *word, const char *description, FILE *to);

/* Print the candidates for the last of the words behind a verb, which may be empty. Return the
 * values that belong there, too. */
enum complete_want complete_words(const struct verb *v, int argc, char **argv, FILE *to);

/* Ask the shell for words that it knows itself. */
void complete_ask_shell(enum complete_want want, FILE *to);
