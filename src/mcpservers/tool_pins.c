#include "tool_pins.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sorted by name: a list of a thousand tools is compared once a second at most. */
static size_t find_place(const struct tool_pins *p, const char *name, bool *ret_found)
{
	size_t from = 0, to = p->n;

	*ret_found = false;
	while (from < to && !*ret_found) {
		size_t mid = from + (to - from) / 2;
		int order = strcmp(name, p->pins[mid].name);

		*ret_found = order == 0;
		if (order == 0)
			from = mid;
		else if (order < 0)
			to = mid;
		else
			from = mid + 1;
	}
	return from;
}

static void add(struct tool_pins *p, size_t at, const char *name, const uint8_t *hash)
{
	struct tool_pin *grown;
	size_t size = p->size == 0 ? 32 : p->size * 2;

	if (p->n == TOOL_PINS_MAX)
		return;
	if (p->n == p->size) {
		grown = realloc(p->pins, size * sizeof(*grown));
		if (grown == NULL)
			return;
		p->pins = grown;
		p->size = size;
	}
	memmove(&p->pins[at + 1], &p->pins[at], (p->n - at) * sizeof(*p->pins));
	p->pins[at] = (struct tool_pin){ 0 };
	(void)snprintf(p->pins[at].name, sizeof(p->pins[at].name), "%s", name);
	memcpy(p->pins[at].hash, hash, sizeof(p->pins[at].hash));
	p->n++;
}

static void put_name(char names[TOOL_PINS_NAMED], const char *name)
{
	size_t n = strlen(names);

	if (n + strlen(name) + 2 < TOOL_PINS_NAMED)
		(void)snprintf(names + n, TOOL_PINS_NAMED - n, "%s%s", n == 0 ? "" : " ", name);
}

size_t tool_pins_see(struct tool_pins *p, const struct tool_list *l, bool keep,
		     char ret_names[TOOL_PINS_NAMED])
{
	size_t changed = 0, at;
	bool found, differs;

	ret_names[0] = '\0';
	for (size_t i = 0; i < l->n; i++) {
		const struct tool *t = &l->tools[i];

		at = find_place(p, t->name, &found);
		if (!found) {
			add(p, at, t->name, t->hash);
			continue;
		}
		differs = memcmp(p->pins[at].hash, t->hash, sizeof(t->hash)) != 0;
		if (differs && !p->pins[at].changed) {
			changed++;
			put_name(ret_names, t->name);
		}
		p->pins[at].changed = differs && keep;
		if (!keep)
			memcpy(p->pins[at].hash, t->hash, sizeof(t->hash));
	}
	return changed;
}

void tool_pins_put(struct tool_pins *p, const char *name, const uint8_t hash[SHA256_SIZE])
{
	bool found;
	size_t at = find_place(p, name, &found);

	if (!found && tool_name_is_valid(name, strlen(name))) {
		add(p, at, name, hash);
		at = find_place(p, name, &found);
		if (found)
			p->pins[at].kept = true;
	}
}

bool tool_pins_changed(const struct tool_pins *p, const char *name)
{
	bool found;
	size_t at = find_place(p, name, &found);

	return !found || p->pins[at].changed;
}

void tool_pins_release(struct tool_pins *p)
{
	free(p->pins);
	*p = (struct tool_pins){ 0 };
}
