/* serve_levels.c - finds which isolation levels this server offers: those that the operator wants
 * (setting `levels`) and that the machine can do (level_machine.h). cordond gets the result with
 * its other settings; a client that asks for another one gets the reason. */
#include <stdio.h>
#include <string.h>

#include "host_size.h"
#include "log.h"
#include "serve.h"

/* Is the level one of the setting's, whose names are separated by commas? */
static bool is_wanted(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; *at != '\0';) {
		size_t len = strcspn(at, ",");

		if (len == n && memcmp(at, name, n) == 0)
			return true;
		at += len + (at[len] == ',');
	}
	return false;
}

int serve_levels_check(const struct serve *s, struct err *e)
{
	for (const char *at = s->config.levels; *at != '\0';) {
		size_t len = strcspn(at, ",");
		char name[32];

		(void)snprintf(name, sizeof(name), "%.*s", (int)len, at);
		if (len == 0 || len >= sizeof(name) || cell_level_find(name) == NULL)
			return err_set(e, ERR_INVALID,
				       "levels: '%.40s' is none of " CELL_LEVEL_NAMES, name);
		at += len + (at[len] == ',');
	}
	return 0;
}

/* What the root image of the template host takes is known before it is begun. */
static void look_at_host(struct serve *s)
{
	uint64_t bytes = 0, enough = s->config.guest_root_max;
	struct err e;

	if (host_size(enough, &bytes, &e) < 0)
		log_warn("the size of the template host is not known", "error=%s", e.msg);
	s->setup.host_bytes = bytes > enough ? bytes : 0;
	if (bytes > enough)
		log_info("the template host is large", "mib=%llu note=%s",
			 (unsigned long long)(bytes >> 20),
			 "its first session at level microvm takes long, and so much of "
			 "storage_dir");
}

int serve_levels(struct serve *s, struct err *e)
{
	const struct cell_level *l;

	if (serve_levels_check(s, e) < 0)
		return -1;
	level_machine_init(&s->levels);
	for (size_t i = 0; (l = cell_level_at(i)) != NULL; i++) {
		struct cell_level_state *state = &s->levels.states[i];

		if (is_wanted(s->config.levels, l->name))
			level_machine_find_one(l->id, s->config.runsc, s->config.state_dir,
					       &s->levels);
		else
			(void)snprintf(state->why, sizeof(state->why),
				       "the setting `levels` of the server does not name it");
		log_info("level", "name=%s possible=%u why=%s note=%s", l->name, state->is_possible,
			 state->why, state->note);
	}
	if (s->levels.states[CELL_MICROVM].is_possible)
		look_at_host(s);
	s->setup.use_kvm = s->levels.use_kvm;
	memcpy(s->setup.guest_key, s->levels.guest_key, sizeof(s->setup.guest_key));
	memcpy(s->setup.guest_origin, s->levels.guest_origin, sizeof(s->setup.guest_origin));
	memcpy(s->setup.levels, s->levels.states, sizeof(s->setup.levels));
	return 0;
}
