/* secret_mask.h - the mask of a session's output (session_mask_set()), made of all values that the
 * session has or had. */
#pragma once

#include "session.h"

/* Makes the mask again. */
void secret_mask(struct session *s);
/* Makes the mask again if a value has changed. Called before a value of the session is used for its
 * cell or for egress. */
void secret_mask_now(struct session *s);
