/* compose.h - request bodies from options. Every function adds to the object it is given, adds
 * nothing for an absent option, and fails with a message that names the option. */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "cmd/base/options.h"

/* Add all given options of the table with a member. fields: the struct that options_parse() has
 * filled. Numbers of 0 count as not given. */
int compose_options(json_t *body, const struct option *options, size_t n, const void *fields,
		    struct err *e) MUST_USE;
/* Text must be UTF-8, since JSON is. NULL adds nothing. */
int compose_text(json_t *body, const char *member, const char *option, const char *text,
		 struct err *e) MUST_USE;
/* As "500ms". 0 adds nothing. */
int compose_time(json_t *body, const char *member, uint64_t ms, struct err *e) MUST_USE;
/* A time as people write it, where 0 has a meaning: it is sent. NULL adds nothing. */
int compose_time_text(json_t *body, const char *member, const char *option, const char *text,
		      struct err *e) MUST_USE;
/* 0 adds nothing. */
int compose_number(json_t *body, const char *member, uint64_t value, struct err *e) MUST_USE;
/* NAME=VALUE, each. The last one counts if a name is given twice. */
int compose_pairs(json_t *body, const char *member, const char *option,
		  const struct option_list *list, struct err *e) MUST_USE;
int compose_list(json_t *body, const char *member, const char *option, const char *const *texts,
		 size_t n, struct err *e) MUST_USE;
/* The network policy of a session: a file (one at most, a word with '/' or '.') and names of
 * presets, and further allowed hosts. */
int compose_network(json_t *body, const char *member, const struct option_list *policy,
		    const struct option_list *allow, struct err *e) MUST_USE;
/* From NAME:/path[:ro|rw], writable unless ro. */
int compose_volumes(json_t *body, const char *member, const struct option_list *list,
		    struct err *e) MUST_USE;
/* SRC:DST[:ro|rw] as `cordon run` takes it. */
int compose_mounts(json_t *body, const char *member, const struct option_list *list,
		   struct err *e) MUST_USE;
/* A port, from 1 to 65535. */
int compose_port(const char *text, json_int_t *ret, struct err *e) MUST_USE;
/* KIND=ACTION as {KIND: {"action": ACTION}}: the server checks the words. */
int compose_alarms(json_t *body, const char *member, const struct option_list *list,
		   struct err *e) MUST_USE;
int compose_ports(json_t *body, const char *member, const struct option_list *list,
		  struct err *e) MUST_USE;
/* NAME[=WAY[:WHERE]] of secrets. */
int compose_secrets(json_t *body, const char *member, const struct option_list *list,
		    struct err *e) MUST_USE;

/* The error of a file that json_load_file() did not load. */
void compose_json_fault(struct err *e, const char *option, const char *path,
			const json_error_t *why);
