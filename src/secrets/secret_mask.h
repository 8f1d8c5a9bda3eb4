/* secret_mask.h - the mask of a session's output, made of all values it has or had. */
#pragma once

#include "session.h"

/* Makes it anew. */
void secret_mask(struct session *s);
/* Makes it anew if a value has changed. Called before any value of the session is taken for its
 * cell or for egress. */
void secret_mask_now(struct session *s);
