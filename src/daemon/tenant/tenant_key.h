/* tenant_key.h - writes the event key.expired when the lifetime of a key ends.
 *
 * The row of the key makes tenant_authenticate() refuse it. The event is only the record.
 * retention.c calls key_expiry_piece() once a second. The store holds the position behind the last
 * reported key, so that each key is reported once, even if it expired while no server ran.
 * The functions that make, find and revoke keys are in tenant.h. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/store/store.h"

struct core;

/* A key was made. 0: it does not expire. */
void key_expiry_add(struct core *c, uint64_t expires_ms);
/* Report some keys. True: there may be more. */
bool key_expiry_piece(struct core *c);
