/* spec_alarms.h - the member `alarms` of a session: rules of kinds, {"escape_attempt":
 * {"threshold", "severity", "action"}}. A missing member has the usual value. Pure.
 */
#pragma once

#include "lib/policy/alarm_rules.h"
#include "front/web/json_members.h"
#include "lib/json/json.h"

/* Into lines of alarm_rules.h. */
void spec_alarms_read(struct json_members *m, char ret[ALARM_RULES_TEXT_MAX]);

/* Those rules in an answer. */
void spec_alarms_view(struct json *j, const char *lines);
