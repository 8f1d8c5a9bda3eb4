/* masked_tools.h - values of secrets in definitions of tools, which a server writes as it likes,
 * are covered as in results: in pieces, because a page may have a MiB. Called by server_link.c. */
#pragma once

#include "mask.h"
#include "session.h"
#include "tool_list.h"

/* All zero but for the first two at the beginning of a page. */
struct tool_masking {
	size_t at;   /* of the list: the tool that is masked next */
	size_t kept; /* where it goes: tools before are done */
	struct mask_work work;
};

/* Masks some bytes of the list from `at` on. A tool whose name has a value is dropped; a definition
 * that is not JSON any more becomes an empty one. True: all of the list is masked. */
bool masked_tools_piece(struct tool_masking *w, struct tool_list *l, const struct session *s);
void masked_tools_release(struct tool_masking *w);
