/* timeline_entry.h - rows of the store as entries of a session's timeline (api_timeline.c).
 *
 * An entry has the time at which its fact was complete: that of a network record is its end. Titles
 * hold text of cells and servers: control characters, also those that turn the direction of text or
 * cannot be seen, are written as "\x1b" and "\u202e". */
#pragma once

#include "daemon/node/core.h"
#include "daemon/store/store_event.h"
#include "daemon/store/store_net.h"
#include "daemon/store/store_sample.h"
#include "lib/json/json.h"

/* The words for the parameter types, and for "kind" in an entry. */
enum timeline_kind {
	TIMELINE_SESSION,
	TIMELINE_EXECUTION,
	TIMELINE_OUTPUT,
	TIMELINE_FILE,
	TIMELINE_NETWORK,
	TIMELINE_DNS,
	TIMELINE_PACKAGE,
	TIMELINE_RESOURCE,
	TIMELINE_APPROVAL,
	TIMELINE_ALARM,
	TIMELINE_KINDS
};
extern const char *const timeline_kind_names[TIMELINE_KINDS];

#define TIMELINE_TITLE_MAX 320		/* bytes. Longer ones are cut */
#define TIMELINE_ENTRY_MAX 32768	/* bytes of an entry as JSON, more than any has */
#define TIMELINE_DETAIL_MAX (16U << 10) /* bytes read for the title of a network record */

enum timeline_kind timeline_kind_of_event(const char *type);
enum timeline_kind timeline_kind_of_net(const char *kind);

/* Each writes an entry into the empty j, without the bracket that closes it, and returns its
 * time. */
uint64_t timeline_write_event(struct core *c, const struct store_event *row, struct json *j);
uint64_t timeline_write_net(const struct store_net *row, struct json *j);
uint64_t timeline_write_sample(const struct store_sample *row, struct json *j);
