/* capture_values.h - the values that a capture must not have, in a sealed memfd for cordon-storage
 * (STORAGE_SEARCH): they are in no file of a disk. Called by session_capture.c. */
#pragma once

#include "session.h"

/* Called when the cell is frozen: what executions got until then is among them. kind: of the
 * capture. Returns the descriptor, owned by the caller, in *ret; -1: there is nothing
 * to look for, because the session was given none, its files stay its own (a pause), or the setting
 * captured_secrets allows them. */
int capture_values(struct session *s, const char *kind, int *ret, struct err *e) MUST_USE;
