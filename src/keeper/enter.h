/* enter.h - the last things PID 1 does before it becomes cordon-init. */
#pragma once

#include "cell.h"

struct enter_plan {
	const struct keeper *keeper;
	const struct keeper_create *request;
	const struct cell *cell;
	int channel_fd; /* channel B */
	int sync_fd; /* the builder: says one byte when ids and root are there; hears of errors */
};

/* Never returns: becomes cordon-init, or reports a struct err to sync_fd and exits. */
void enter_cell(const struct enter_plan *plan) NORETURN;
