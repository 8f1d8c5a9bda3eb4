/* guest_at_hand.h - what the guest of a cell is started from that no session has yet: only what is
 * in memory already is used, nothing is made or loaded for it. Called by template_pools.c; row says
 * what the cells are made for. */
#pragma once

#include "live_guest.h"
#include "store.h"

struct store_session;
struct template_version;

bool guest_is_at_hand(struct template_version *v, const struct store_session *row);

/* Is that the root image with which such a guest would be started now? Not if the layer is gone, or
 * the machine's programs have changed. */
bool guest_root_is_current(struct template_version *v, const struct store_session *row,
			   const char *root);

/* The request and its descriptors, which are the caller's, and the root image ("" at gvisor). The
 * identity is that of the cell's id, which the session takes over. */
int guest_at_hand(struct template_version *v, const struct store_session *row, const char *id,
		  struct boot_request *ret, int *fds, char ret_root[STORE_ID_MAX],
		  struct err *e) MUST_USE;
