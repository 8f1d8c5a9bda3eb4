/* session_config.h - the text of EGRESS_ATTACH and EGRESS_CHANGE, read: a session's policy,
 * secrets, tenant and former counts (the form is in egress_msg.h). Called by session_control.c. The
 * text comes from cordond. */
#pragma once

#include <jansson.h>

#include "egress_msg.h"
#include "policy.h"

struct secrets;

struct session_config {
	struct policy *policy;	 /* owned */
	struct secrets *secrets; /* owned */
	json_t *used;		 /* owned; session_counts.h; NULL: none so far */
	char tenant[EGRESS_ID_MAX];
};

/* On failure there is nothing to release. */
int session_config_read(const char *text, size_t len, struct session_config *ret,
			struct err *e) MUST_USE;
/* The text of EGRESS_SECRETS. */
int session_config_read_secrets(const char *text, size_t len, struct secrets **ret,
				struct err *e) MUST_USE;
/* Members that were taken over are set to NULL by the caller before. */
void session_config_release(struct session_config *c);
