/* template_stack.h - the parts of a cell's file system: a base, and layers above it.
 *
 * The base is the machine's own /usr ("host"), an entry of template_dir ("dir NAME"), or nothing
 * ("none": the lowest layer is a whole root directory). It has one or more places, "/" first. A
 * layer is a directory of the storage folder with a directory <n> for each place: n is the place's
 * index. A template of kind TEMPLATE_STACK or TEMPLATE_SNAPSHOT has its stack as text in the column
 * `layers`: a line for the base, then a line for each layer id, lowest first. A session booted
 * again from its own files (session_suspend.h) has layers of its own above those of its
 * template. */
#pragma once

#include "daemon/disk/layers.h"
#include "daemon/node/core.h"
#include "daemon/store/store_template.h"

/* One entry of the keeper's request for each layer and place, and two for the base of "host". */
#define TEMPLATE_STACK_MAX ((CELL_LAYERS_MAX - 2) / 2)
#define TEMPLATE_STACK_TEXT (CELL_PATH_MAX + 8 + TEMPLATE_STACK_MAX * STORE_ID_MAX)

enum template_base { TEMPLATE_BASE_HOST, TEMPLATE_BASE_DIR, TEMPLATE_BASE_NONE };

struct template_stack {
	enum template_base base;
	char dir[CELL_PATH_MAX]; /* TEMPLATE_BASE_DIR: its name */
	size_t nlayers;
	char layers[TEMPLATE_STACK_MAX][STORE_ID_MAX]; /* lowest first */
};

/* The stack of a template of any kind. ERR_INVALID: the row is malformed. */
int template_stack_read(const struct store_template *t, struct template_stack *ret,
			struct err *e) MUST_USE;

/* Put layers on top. ERR_LIMIT: that would be more than TEMPLATE_STACK_MAX. */
int template_stack_push(struct template_stack *s, const char (*layers)[STORE_ID_MAX], size_t n,
			struct err *e) MUST_USE;

/* The layers above the lowest n. */
void template_stack_above(const struct template_stack *s, size_t n, struct template_stack *ret);

/* The text for a row. */
void template_stack_write(const struct template_stack *s, char ret[TEMPLATE_STACK_TEXT]);

/* Fill in the layers of a request to the keeper. ERR_UNSUPPORTED: this server does not have the
 * base, or no storage folder. */
int template_stack_plan(const struct core *c, const struct template_stack *s,
			struct keeper_create *ret, struct err *e) MUST_USE;

/* How many bytes its layers have on disk, without the base. */
uint64_t template_stack_bytes(const struct core *c, const struct template_stack *s);

/* Is this the id of a layer? They are parts of paths that the keeper and cordon-storage open. */
/* The base below its layers, as cordon-storage names it (struct storage_fold). "": none. */
const char *template_stack_base(const struct core *c, const struct template_stack *s);

bool template_stack_is_layer(const char *id);

/* ---- makes one layer of several, so that stacks stay short
 *
 * Stacks grow when a session is paused without memory again and again, when a fork is forked, and
 * when a session of a snapshot is captured. Used by session_suspend.c, session_fork.c and
 * snapshot.c.
 *
 * The layers of the session are folded above those of its template, which stay. Files are linked,
 * not copied. If folding fails, the stack stays as it is. */

#define LAYER_FOLD_ABOVE 10 /* layers that a stack may have without being folded */

struct layer_fold {
	struct completion done; /* on_done and arg are the caller's. It ends without error */
	/* The rest is template_stack.c's. */
	struct core *core;
	struct template_stack *stack; /* the caller's */
	size_t stay;
	struct layer_writing writing;
	struct storage_job job;
	char layer[STORE_ID_MAX]; /* the new one, with a use of kind STORE_LAYER_HELD. "": none */
};

/* Fold the stack above its lowest `stay` layers, if it is high. *s is changed when done ends. Its
 * base is the one below its lowest layer. */
void layer_fold(struct core *c, const char *tenant, struct template_stack *s, size_t stay,
		struct layer_fold *f);
/* The caller has uses of its own now, or gives up: done does not end any more. Repeatable. */
void layer_fold_release(struct layer_fold *f);
