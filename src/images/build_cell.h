/* build_cell.h - the session that a step of a build runs in, and what runs in it. For the files of
 * this folder.
 *
 * A build has one session at most. It is made from the base and the layers so far, belongs to the
 * tenant, has its limits and is on record like any other; a client that deletes it ends the build.
 * Everything here ends by the callback that it was given, or by build_fail(), after which the build
 * is gone. */
#pragma once

#include "build_private.h"

/* Makes one. */
void build_cell_open(struct build *b, void (*then)(struct build *b));
/* Its changes become a layer, which is put on the stack and belongs to the build. */
void build_cell_capture(struct build *b, void (*then)(struct build *b));
/* Ends the session, if there is one. */
void build_cell_close(struct build *b);
/* Ends and frees all of it. */
void build_cell_release(struct build *b);
/* The session, if it runs. */
struct session *build_cell_session(struct build *b);

/* build_exec.c: runs a command of a shell as a user in a directory (NULL: the user's home), with
 * the environment of the build. Output is logged unless quiet. then gets the exit status; a command
 * that cannot run fails the build with the words of E2B. */
void build_exec_run(struct build *b, struct build_exec *x, const char *user, const char *cwd,
		    const char *command, bool quiet, void (*then)(struct build *b, int code));
/* Starts the start command, which goes on. If it fails, the build is gone. True: it runs. */
bool build_exec_start(struct build *b) MUST_USE;
/* Has the command ended? -1: no, else its exit status. */
int build_exec_status(struct build *b, const struct build_exec *x);
void build_exec_release(struct build *b, struct build_exec *x);

/* build_copy.c: puts an archive of the client into the cell. */
void build_copy_run(struct build *b, const struct recipe_step *s, void (*then)(struct build *b));
/* Makes a directory with its parents, for the user of the build, and sets the working directory. */
void build_copy_workdir(struct build *b, const char *path, void (*then)(struct build *b));
/* Ends what is under way. */
void build_copy_release(struct build *b);
