/* build_cell.h - the session that a step of a build runs in, and what runs in it. For the files of
 * this folder.
 *
 * A build has one session at most. It is made from the base and the layers so far, belongs to the
 * tenant, has its limits and is on record like any other. A client that deletes it ends the build.
 * Everything here ends by the callback that it was given, or by build_fail(), after which the build
 * is gone. */
#pragma once

#include "daemon/images/build_private.h"

/* Make one. */
void build_cell_open(struct build *b, void (*then)(struct build *b));
/* Its changes become a layer, put on the stack and owned by the build. */
void build_cell_capture(struct build *b, void (*then)(struct build *b));
/* End the session, if there is one. */
void build_cell_close(struct build *b);
/* End and free all of it. */
void build_cell_release(struct build *b);
/* The session, if it runs. */
struct session *build_cell_session(struct build *b);

/* build_cell.c: runs a command of a shell as a user in a directory (NULL: the user's home), with
 * the environment of the build. Output is logged unless quiet. then gets the exit status. A command
 * that cannot run fails the build with the words of E2B. */
void build_exec_run(struct build *b, struct build_exec *x, const char *user, const char *cwd,
		    const char *command, bool quiet, void (*then)(struct build *b, int code));
/* Start the start command. It continues. If it fails, the build is gone. True: it runs. */
bool build_exec_start(struct build *b) MUST_USE;
/* Has the command ended? -1: no, else its exit status. */
int build_exec_status(struct build *b, const struct build_exec *x);
/* The start command has ended with another code than 0: fails the build. */
void build_exec_fail_start(struct build *b);
void build_exec_release(struct build *b, struct build_exec *x);

/* build_limits.c. list: names with commas, as limits_hit of an execution.
 * Can files be missing although the command ended with 0? */
bool build_limits_lose_files(const char *list);
#define BUILD_LIMITS_TEXT 640
/* Write "; limit reached: NAME (REMEDY)" for each limit, and return ret. "": none was hit. */
const char *build_limits_text(const struct build *b, const char *list, char ret[BUILD_LIMITS_TEXT]);

/* build_cell.c: puts an archive of the client into the cell. */
void build_copy_run(struct build *b, const struct recipe_step *s, void (*then)(struct build *b));
/* Make a directory with its parents, for the user of the build, and set the working directory. */
void build_copy_workdir(struct build *b, const char *path, void (*then)(struct build *b));
/* End all operations in progress. */
void build_copy_release(struct build *b);
