/* alarm.h - alarms: events of a session that its owner should look at. As a part of sessions
 * (session_hooks.h) it looks at their samples. Other folders report their events.
 *
 * An alarm is an event of type `alarm`, at most one of a kind for each session in ALARM_EVERY_MS.
 * Those in between are counted. Its rule (alarm_rules.h) may pause or end the session: a task of
 * the loop does that, so that a caller may report an alarm of a session that it works with. */
#pragma once

#include "lib/policy/alarm_rules.h"
#include "daemon/session/session_hooks.h"

#define ALARM_EVERY_MS 10000

extern const struct session_part alarms_part;

/* Something of that kind was seen, by this number. Nothing happens below the rule's threshold.
 * facts: further "key TAB value" lines of the event, or "". The caller masks texts of the cell. */
void alarm_raise(struct session *s, enum alarm_kind kind, uint64_t value, const char *facts);

/* As above, and the session ends in any case. */
void alarm_end(struct session *s, enum alarm_kind kind, const char *facts);

/* The policy of the session has changed: its rules of alarms are found again. */
void alarm_rules_changed(struct session *s);

/* The session asked for a name or host: counts how many different ones it asked for in a minute. */
void alarm_on_name(struct session *s, const char *name);
void alarm_on_host(struct session *s, const char *name);
