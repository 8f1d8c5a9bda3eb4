/* dns_ask.h - one DNS query of the guest, asked in the cell's network by UDP: cordon-egress answers
 * at port 53 of every address. Called by egress_open.c. */
#pragma once

#include <stdbool.h>

#include "lib/wire/mux.h"

#define DNS_ASK_MAX 64U /* queries at a time */

/* The guest has opened a stream for a query. own: the address is one of the cell itself. Then the
 * resolver's is asked. */
void dns_ask_begin(uint16_t number, const struct mux_open *open, bool own);
