/* contexts.c - the table of contexts (context.h). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "ascii_json.h"
#include "context_private.h"
#include "list.h"
#include "log.h"
#include "rand.h"

#define ENV_MAX (6U << 20)
#define LINE_MAX_BYTES (100U << 20)

/* A version 4 UUID, as clients expect. */
static void make_id(char ret[CONTEXT_ID_MAX])
{
	unsigned char b[16];

	rand_bytes(b, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	(void)snprintf(ret, CONTEXT_ID_MAX,
		       "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		       b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12],
		       b[13], b[14], b[15]);
}

struct context *context_add(struct contexts *all, const struct language *l, const char *cwd,
			    struct err *e)
{
	struct context *c;

	if (all->n >= CONTEXTS_MAX) {
		(void)err_set(e, ERR_LIMIT, "there are %u contexts already: remove one first",
			      all->n);
		return NULL;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL) {
		(void)err_sys(e, "allocate");
		return NULL;
	}
	c->all = all;
	c->language = l;
	make_id(c->id);
	(void)snprintf(c->cwd, sizeof(c->cwd), "%s", cwd[0] == '\0' ? all->cwd : cwd);
	context_setup(c);
	LIST_APPEND(&all->last, c);
	all->n++;
	return c;
}

struct context *context_find(struct contexts *all, const char *id)
{
	struct context *c = all->first;

	while (c != NULL && strcmp(c->id, id) != 0)
		c = c->next;
	return c;
}

/* One that has run nothing yet can still have another directory: it gets a new kernel. */
static int change_cwd(struct context *c, const char *cwd, struct err *e)
{
	if (cwd[0] == '\0' || strcmp(cwd, c->cwd) == 0)
		return 0;
	if (c->used || c->first != NULL)
		return err_set(e, ERR_INVALID,
			       "the %s%.63s of %s has its directory already, %.80s; use another "
			       "context for %.80s",
			       c->name[0] == '\0' ? "default context" : "context ", c->name,
			       c->language->name, c->cwd, cwd);
	(void)snprintf(c->cwd, sizeof(c->cwd), "%s", cwd);
	context_restart(c);
	return 0;
}

struct context *context_get(struct contexts *all, const struct language *l, const char *name,
			    const char *cwd, struct err *e)
{
	struct context *c = all->first;

	for (; c != NULL; c = c->next)
		if (name[0] == '\0' ? c->is_default && c->language == l
				    : strcmp(c->name, name) == 0)
			break;
	if (c != NULL && c->language != l) {
		(void)err_set(e, ERR_INVALID, "the context %s is one of %s", name,
			      c->language->name);
		return NULL;
	}
	if (c != NULL)
		return change_cwd(c, cwd, e) < 0 ? NULL : c;
	c = context_add(all, l, cwd, e);
	if (c == NULL)
		return NULL;
	c->is_default = name[0] == '\0';
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	return c;
}

void context_remove(struct context *c)
{
	struct contexts *all = c->all;

	context_stop(c, "the context was removed");
	loop_timer_cancel(all->loop, &c->interrupt_timer);
	LIST_REMOVE_FROM(&all->last, c);
	all->n--;
	free(c);
}

void contexts_sweep(struct contexts *all)
{
	struct context *next;

	for (struct context *c = all->first; c != NULL; c = next) {
		next = c->next; /* alone: a context is removed by itself */
		if (c->unwanted)
			context_remove(c);
	}
}

void context_restart(struct context *c)
{
	context_stop(c, "a client has restarted the context");
}

void contexts_env(struct contexts *all, struct json_value env)
{
	buf_clear(&all->env);
	ascii_json_value(&all->env, env);
	for (struct context *c = all->first; c != NULL; c = c->next)
		context_send_env(c);
}

static struct context *find_default(const struct contexts *all, const struct language *l)
{
	struct context *c = all->first;

	while (c != NULL && (!c->is_default || c->language != l))
		c = c->next;
	return c;
}

bool contexts_ready(const struct contexts *all)
{
	const struct context *c = find_default(all, all->python.language);

	return c == NULL || c->kernel.state == KERNEL_READY ||
	       (c->kernel.state == KERNEL_NONE && !all->warming);
}

/* The first Python kernel, when its parent is ready; or none, if it has failed. */
static void on_parent_change(void *arg)
{
	struct contexts *all = arg;
	struct context *c = find_default(all, all->python.language);
	struct err e;

	if (!all->warming)
		return;
	if (!all->python.ready) {
		all->warming = false;
	} else if (c != NULL && context_warm(c, &e) < 0) {
		log_warn("no Python kernel", "error=%s", e.msg);
		all->warming = false;
	}
}

int contexts_init(struct contexts *all, struct loop *loop, const char *kernels, const char *cwd,
		  unsigned slow_ms, struct err *e)
{
	*all = (struct contexts){
		.loop = loop, .kernels = kernels, .cwd = cwd, .slow_ms = slow_ms
	};
	all->last = &all->first;
	buf_init(&all->env, ENV_MAX);
	buf_init(&all->line, LINE_MAX_BYTES);
	python_parent_init(&all->python, loop, kernels, slow_ms, on_parent_change, all);
	for (size_t i = 0; language_at(i) != NULL; i++)
		if (language_at(i)->at_start && context_get(all, language_at(i), "", "", e) == NULL)
			return -1;
	all->warming = true;
	if (python_parent_start(&all->python, e) < 0) {
		all->warming = false;
		log_warn("Python cannot be run here", "error=%s", e->msg);
	}
	return 0;
}
