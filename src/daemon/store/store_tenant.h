/* store_tenant.h - tenants and their limits. See store.h for what holds for all rows. */
#pragma once

#include "daemon/store/store_allow.h"

#define STORE_REDACT_MAX 2304

struct store_tenant {
	char id[STORE_ID_MAX]; /* "ten_..." */
	char name[STORE_NAME_MAX];
	bool is_operator; /* may see and do everything */
	bool disabled;
	uint64_t created_ms;
	/* 0 in each: as the configuration says for all tenants */
	uint64_t max_sessions;
	uint64_t create_rate_milli; /* thousandths of a session per second */
	uint64_t create_burst;
	uint64_t queue_length, queue_ms;
	uint64_t max_memory, max_storage; /* bytes, over all of its sessions */
	uint64_t max_pids;		  /* the same */
	uint64_t max_stored;		  /* bytes of its layers on disk */
	uint32_t captured_secrets;     /* 0: as the setting says. Else enum config_captured and 1 */
	struct store_allow allow;      /* which sessions it may make */
	char redact[STORE_REDACT_MAX]; /* covered in its sessions: lines of redact.h */
};

typedef int store_tenant_fn(const struct store_tenant *row, void *cookie);

int store_tenant_insert(struct store *s, const struct store_tenant *row, struct err *e) MUST_USE;

/* Everything but id and created_ms. */
int store_tenant_update(struct store *s, const struct store_tenant *row, struct err *e) MUST_USE;

/* The layer of its policy, a document of policy.h. "": none. The caller frees *ret. */
int store_tenant_get_policy(struct store *s, const char *id, char **ret, struct err *e) MUST_USE;
int store_tenant_set_policy(struct store *s, const char *id, const char *policy,
			    struct err *e) MUST_USE;

/* All, by name. */
int store_tenant_each(struct store *s, store_tenant_fn *fn, void *cookie, struct err *e) MUST_USE;
/* Those behind that name, by name. */
int store_tenant_list(struct store *s, const char *after, store_tenant_fn *fn, void *cookie,
		      struct err *e) MUST_USE;
