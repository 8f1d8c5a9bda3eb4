/* audit_key.h - Ed25519 for verifiers of notes, by libcrypto. */
#pragma once

#include "lib/tlog/tlog_note.h"

/* A tlog_verify_fn. arg is not used. False also for a key in another spelling or of small order,
 * where verifiers differ (examples/verify.py must say the same). */
bool audit_key_holds(void *arg, const uint8_t key[TLOG_KEY], const void *message, size_t len,
		     const uint8_t sig[TLOG_SIG]);
