#include "spec_allow.h"

#include <stdio.h>
#include <string.h>

#define LIST_MAX 64
#define COUNT_MAX 1000000

static bool is_name(const char *text)
{
	return text != NULL && *text != '\0' &&
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "_.:/@-")] == '\0';
}

static void read_list(struct json_members *m, const char *name, char ret[STORE_ALLOW_LIST_MAX])
{
	json_t *list = json_members_array(m, name, LIST_MAX);
	size_t used = 0;

	for (size_t i = 0; list != NULL && i < json_array_size(list); i++) {
		const char *word = json_string_value(json_array_get(list, i));
		int n;

		if (!is_name(word)) {
			(void)json_members_fail(m, name, "must be a list of names");
			return;
		}
		n = snprintf(ret + used, STORE_ALLOW_LIST_MAX - used, "%s%s", i == 0 ? "" : ",",
			     word);
		used += (size_t)n;
		if (used >= STORE_ALLOW_LIST_MAX) {
			(void)json_members_fail(m, name, "is too long");
			return;
		}
	}
	if (list != NULL && json_array_size(list) == 0)
		(void)json_members_fail(m, name,
					"must not be empty: leave it out to allow everything");
}

void spec_allow_read(struct json_members *outer, const char *name, bool of_key,
		     struct store_allow *ret)
{
	json_t *object = json_members_object(outer, name, JSON_MEMBERS_MAX);
	struct json_members m;

	if (object == NULL)
		return;
	memset(ret, 0, sizeof(*ret));
	json_members_begin(&m, object, name, outer->e);
	read_list(&m, "templates", ret->templates);
	read_list(&m, "levels", ret->levels);
	read_list(&m, "networks", ret->networks);
	json_members_bytes(&m, "memory", &ret->memory_bytes, NULL);
	json_members_millis(&m, "cpus", &ret->cpu_millis);
	json_members_count(&m, "pids", 0, UINT32_MAX, &ret->pids);
	json_members_bytes(&m, "disk", &ret->disk_bytes, NULL);
	json_members_time(&m, "timeout", &ret->timeout_ms, NULL);
	if (of_key) { /* a tenant has max_sessions and create_rate */
		json_members_count(&m, "sessions", 0, COUNT_MAX, &ret->sessions);
		json_members_count(&m, "creates_per_minute", 0, COUNT_MAX,
				   &ret->creates_per_minute);
	}
	if (json_members_end(&m) < 0)
		outer->failed = true;
}

static void show_list(struct json *j, const char *name, const char *list)
{
	if (*list == '\0')
		return;
	json_open(j, name, '[');
	while (*list != '\0') {
		size_t n = strcspn(list, ",");

		json_bytes(j, NULL, list, n);
		list += n + (list[n] == ',');
	}
	json_close(j, ']');
}

static void show_number(struct json *j, const char *name, uint64_t value)
{
	if (value > 0)
		json_uint(j, name, value);
}

void spec_allow_show(struct json *j, const char *name, const struct store_allow *a)
{
	json_open(j, name, '{');
	show_list(j, "templates", a->templates);
	show_list(j, "levels", a->levels);
	show_list(j, "networks", a->networks);
	show_number(j, "memory_bytes", a->memory_bytes);
	show_number(j, "cpu_millis", a->cpu_millis);
	show_number(j, "pids", a->pids);
	show_number(j, "disk_bytes", a->disk_bytes);
	show_number(j, "timeout_ms", a->timeout_ms);
	show_number(j, "sessions", a->sessions);
	show_number(j, "creates_per_minute", a->creates_per_minute);
	json_close(j, '}');
}
