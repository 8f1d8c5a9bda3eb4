#include "cell/shim/report.h"

#include <unistd.h>

#include "cell/init/base/channel.h"
#include "cell/init/pid1/agentd.h"
#include "cell/shim/guest_dial.h"
#include "lib/wire/boot_msg.h"

/* One slot for each report. A later one of the same kind takes the place of an unsent one. */
static struct agentd_slot all_dead, booted, snapshot, gone;
static unsigned stated; /* how many */
static struct agent_event stated_event;
static bool responsive = true, told = true;

void report_begin(void)
{
	told = true;
	stated = 0;
	agentd_slot_clear(&all_dead);
	agentd_slot_clear(&booted);
	agentd_slot_clear(&snapshot);
}

void report_all_dead(const struct agent_event *v)
{
	agentd_slot_set(&all_dead, AGENT_ALL_DEAD, v, -1, -1);
}

void report_stated(const struct agent_event *v)
{
	stated++;
	stated_event = *v;
}

void report_booted(const struct agent_event *v, int text)
{
	struct agent_event with = *v;

	with.flags = text >= 0 ? AGENT_HAS_TEXT : 0;
	agentd_slot_set(&booted, AGENT_BOOTED, &with, text, -1);
}

void report_snapshot(const struct agent_event *v, int memory, int devices)
{
	agentd_slot_set(&snapshot, AGENT_SNAPSHOT_DONE, v, memory, devices);
}

void report_responsive(bool now)
{
	responsive = now;
}

void report_gone(uint32_t state, int text)
{
	const struct agent_event v = { .stage = state,
				       .flags = text >= 0 ? (uint32_t)AGENT_HAS_TEXT : 0 };

	agentd_slot_set(&gone, AGENT_GUEST, &v, text, -1);
}

/* Each request gets an answer, and all get the newest numbers. */
static bool report_send_stated(void)
{
	for (; stated > 0; stated--)
		if (!channel_send(AGENT_STATED, &stated_event, NULL, 0))
			return false;
	return true;
}

static bool report_send_responsive(void)
{
	const struct agent_event v = { .stage = responsive ? BOOT_GUEST_ALIVE
							   : BOOT_GUEST_UNRESPONSIVE };

	if (responsive == told)
		return true;
	if (!channel_send(AGENT_GUEST, &v, NULL, 0))
		return false;
	told = responsive;
	return true;
}

static bool report_send_dials(void)
{
	struct agent_event v;
	int fd;

	while (guest_dial_next_done(&v, &fd)) {
		if (!channel_send(AGENT_DIALED, &v, &fd, v.sys == 0))
			return false;
		guest_dial_on_sent(&v);
	}
	return true;
}

/* False: the channel is full, and the rest follows when it has room. The shim exits when GONE was
 * sent. */
bool report_send(void)
{
	if (!report_send_stated() || !agentd_slot_send(&all_dead) || !report_send_dials() ||
	    !agentd_slot_send(&booted) || !agentd_slot_send(&snapshot) || !report_send_responsive())
		return false;
	if (!gone.pending)
		return true;
	if (agentd_slot_send(&gone))
		_exit(0);
	return false;
}
