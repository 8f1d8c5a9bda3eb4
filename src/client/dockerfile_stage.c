/* dockerfile_stage.c - see dockerfile_stage.h. */
#include "dockerfile_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct dockerfile *dockerfile_stage_find(const struct dockerfile *last, const char *name)
{
	char number[16];

	for (const struct dockerfile *d = last->before; d != NULL; d = d->before) {
		(void)snprintf(number, sizeof(number), "%u", d->number);
		if (strcmp(name, number) == 0 ||
		    (d->name != NULL && strcasecmp(d->name, name) == 0))
			return d;
	}
	return NULL;
}

int dockerfile_stage_begin(struct dockerfile *d, struct err *e)
{
	d->steps = calloc(DOCKERFILE_STEPS_MAX, sizeof(*d->steps));
	return d->steps == NULL ? err_sys(e, "allocate") : 0;
}

const struct dockerfile *dockerfile_first(const struct dockerfile *d)
{
	while (d->from_stage != NULL)
		d = d->from_stage;
	return d;
}

bool dockerfile_has(const struct dockerfile *d, const char *type)
{
	for (; d != NULL; d = d->from_stage)
		for (unsigned i = 0; i < d->nsteps; i++)
			if (strcmp(d->steps[i].type, type) == 0)
				return true;
	return false;
}

void dockerfile_release(struct dockerfile *d)
{
	if (d->before != NULL)
		dockerfile_release(d->before);
	free(d->before);
	free(d->name);
	for (unsigned i = 0; i < d->nsteps; i++)
		for (unsigned k = 0; k < d->steps[i].argc; k++)
			free(d->steps[i].args[k]);
	free(d->steps);
	free(d->from);
	free(d->start);
	*d = (struct dockerfile){ 0 };
}
