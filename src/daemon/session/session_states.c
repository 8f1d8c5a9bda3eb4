/* session_states.c - the state machine of sessions, as a table: the same as in doc/sessions.md,
 * which a test compares. */
#include "daemon/session/session_states.h"

#include "daemon/node/core_private.h"
#include "daemon/session/session.h"

static const char *const names[] = {
	[SESSION_CREATING] = "creating", [SESSION_RUNNING] = "running",
	[SESSION_PAUSING] = "pausing",	 [SESSION_PAUSED] = "paused",
	[SESSION_RESUMING] = "resuming", [SESSION_ENDING] = "ending",
	[SESSION_ENDED] = "ended",	 [SESSION_STOPPED] = "stopped",
};
_Static_assert(COUNT(names) == SESSION_STATES, "one name for each state");

const char *const session_storage_names[SESSION_STORAGES] = { "memory", "disk" };
const char *const session_trace_names[SESSION_TRACES] = { "none", "programs", "calls", "files" };

static const char *const reasons[] = {
	[SESSION_NO_REASON] = "",
	[SESSION_OOM] = "oom",
	[SESSION_KILLED] = "killed",
	[SESSION_CRASHED] = "crashed",
	[SESSION_EXPIRED] = "expired",
	[SESSION_DELETED] = "deleted",
	[SESSION_HOST_RESTART] = "host_restart",
	[SESSION_GUEST_PANICKED] = "guest_panicked",
	[SESSION_ENGINE_EXITED] = "engine_exited",
	[SESSION_UNRESPONSIVE] = "unresponsive",
	[SESSION_STORAGE_FULL] = "storage_full",
	[SESSION_ALARM] = "alarm",
};
_Static_assert(COUNT(reasons) == SESSION_REASONS, "one name for each reason");

#define TO(state) (1U << SESSION_##state)

static const unsigned transitions[] = {
	[SESSION_CREATING] = TO(RUNNING) | TO(ENDING),
	[SESSION_RUNNING] = TO(PAUSING) | TO(ENDING),
	[SESSION_PAUSING] = TO(PAUSED) | TO(RUNNING) | TO(ENDING),
	[SESSION_PAUSED] = TO(RESUMING) | TO(ENDING),
	[SESSION_RESUMING] = TO(RUNNING) | TO(PAUSED) | TO(ENDING),
	[SESSION_ENDING] = TO(ENDED),
	[SESSION_ENDED] = 0,
	[SESSION_STOPPED] = 0,
};
_Static_assert(COUNT(transitions) == SESSION_STATES, "one row for each state");

bool session_states_allow(enum session_state from, enum session_state to)
{
	return from < SESSION_STATES && to < SESSION_STATES && (transitions[from] & 1U << to) != 0;
}

const char *session_state_name(enum session_state s)
{
	return s < SESSION_STATES ? names[s] : "unknown";
}

const char *session_reason_name(enum session_reason r)
{
	return r < SESSION_REASONS ? reasons[r] : "unknown";
}

/* Programs in the session cause an out-of-memory end, a guest panic and an unresponsive program, so
 * these do not count as lost. */
enum err_reason session_gone_reason(const struct store_session *row)
{
	static const bool is_failure[SESSION_REASONS] = {
		[SESSION_KILLED] = true,
		[SESSION_CRASHED] = true,
		[SESSION_HOST_RESTART] = true,
		[SESSION_ENGINE_EXITED] = true,
	};

	return row->reason < SESSION_REASONS && is_failure[row->reason] ? REASON_LOST : REASON_GONE;
}

bool session_is_cold(const struct store_session *row)
{
	return row->cold == COLD_YES || row->cold == COLD_BLANK || row->cold == COLD_MEMORY;
}

enum session_state session_shown_state(const struct store_session *row)
{
	if (row->state == SESSION_PAUSED && session_is_cold(row) && row->cold != COLD_MEMORY)
		return SESSION_STOPPED;
	return (enum session_state)row->state;
}

const char *session_shown_name(const struct store_session *row)
{
	return session_state_name(session_shown_state(row));
}
