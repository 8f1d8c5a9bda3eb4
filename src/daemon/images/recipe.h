/* recipe.h - the work of a build: where it begins, its steps, its start and ready command. Made
 * from JSON by front/web/spec_recipe.c, run by build_run.c. Also the results that each step leaves
 * for the next one beside files: user, working directory and environment. Pure.
 *
 * A recipe is a client's: texts have no NUL, and are bounded by the request that brought them. */
#pragma once

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define RECIPE_STEPS_MAX 256
#define RECIPE_ARGS_MAX 256 /* of a step */
#define RECIPE_HASH_MAX 65
#define RECIPE_TEXT_MAX ((size_t)64 * 1024) /* of an argument or command */
#define RECIPE_ENV_MAX ((size_t)256 * 1024) /* of the environment */
/* Each reference looks through all variables: their product is the time that ENV takes in a turn.
 */
#define RECIPE_VARIABLES_MAX 2048 /* of the environment */
#define RECIPE_REFERENCES_MAX 256 /* to variables, in a value of ENV */
#define RECIPE_NETWORK_MAX 63	  /* bytes of the names of presets */
#define RECIPE_USER_MAX 64
#define RECIPE_PATH_MAX 4096

enum recipe_type { RECIPE_RUN, RECIPE_COPY, RECIPE_ENV, RECIPE_WORKDIR, RECIPE_USER, RECIPE_TYPES };

struct recipe_step {
	enum recipe_type type;
	bool force;		    /* not from the cache, nor any later step */
	char hash[RECIPE_HASH_MAX]; /* COPY: the client's name for the archive */
	unsigned argc;
	char **args; /* owned, each */
};

struct recipe {
	char *image, *template; /* owned. One of them is NULL */
	char *start, *ready;	/* owned. NULL: not given */
	char *network;		/* owned: presets. NULL: those of the setting build_network */
	/* Credentials for the registry, wiped at the end. NULL: none. */
	char *registry_user, *registry_password;
	char *registry_region; /* owned. Of AWS, whose access key the credentials are then */
	bool force;
	unsigned nsteps;
	struct recipe_step *steps; /* owned */
};

/* "RUN", "COPY", ... */
const char *recipe_type_name(enum recipe_type type);
/* Also of "ADD" and "ARG", which mean COPY and ENV. False: there is no such type. */
bool recipe_type_find(const char *word, enum recipe_type *ret);

/* Check the parts that do not depend on files: the number of arguments, and their form. */
int recipe_check(const struct recipe *r, struct err *e) MUST_USE;
void recipe_release(struct recipe *r);

/* 64 lower-case hex digits. */
bool recipe_is_hash(const char *text);

/* ---- results of a step */

struct recipe_state {
	char user[RECIPE_USER_MAX];
	char workdir[RECIPE_PATH_MAX]; /* "": none, the user's home */
	struct buf env;		       /* NAME=value, each with its NUL */
	unsigned variables;	       /* in env */
};

void recipe_state_init(struct recipe_state *s);
void recipe_state_release(struct recipe_state *s);
/* Set all of it. ERR_LIMIT, REASON_TOO_LARGE if it does not fit. */
int recipe_state_set(struct recipe_state *s, const char *user, const char *workdir, const void *env,
		     size_t env_len, struct err *e) MUST_USE;
/* The value of a variable. NULL: not set. */
const char *recipe_state_env(const struct recipe_state *s, const char *name, size_t len);
/* Set a variable. The value is expanded once, like a word in double quotes: $NAME, ${NAME} and
 * ${NAME:-text}; a backslash before $, ", ` and itself. Nothing is executed. ERR_LIMIT: more than
 * RECIPE_VARIABLES_MAX or RECIPE_REFERENCES_MAX. */
int recipe_state_set_env(struct recipe_state *s, const char *name, const char *value,
			 struct err *e) MUST_USE;
/* Path made absolute by the working directory (or base, if there is none), as text: without ".",
 * ".." and doubled slashes. A slash at the end stays. */
int recipe_state_path(const struct recipe_state *s, const char *path, const char *base,
		      char ret[RECIPE_PATH_MAX], struct err *e) MUST_USE;
/* The part of a COPY's source before the first component with glob characters. "": the whole
 * archive. */
int recipe_copy_entry(const char *source, char ret[RECIPE_PATH_MAX], struct err *e) MUST_USE;
