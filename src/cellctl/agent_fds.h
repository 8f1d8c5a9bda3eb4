/* agent_fds.h - checks the descriptors that come with an event of PID 1, which the cell may have
 * taken over: their number, what they are, and their direction (agent_msg.h). Makes them
 * non-blocking. Called by agent_client.c for each event, before its caller gets it. */
#pragma once

#include "agent_client.h"

int agent_fds_check(const struct agent *a, enum agent_type type, const struct agent_event *v,
		    struct err *e) MUST_USE;
