/* confine_egress.h - restricts cordon-egress to what it needs. Called once, by main.c, after all
 * files were read and before the first byte of a cell or a server is. A restriction that cannot be
 * installed is an error; only a kernel without Landlock is accepted, with a warning in the log. */
#pragma once

#include "err.h"

/* Afterwards egress can open no file, start no program, listen at no port, and make no sockets but
 * TCP and UDP ones to connect with. Sets no new privileges. */
int confine_egress(struct err *e) MUST_USE;
