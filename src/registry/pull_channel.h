/* pull_channel.h - cordon-pull's end of its channel to cordond (pull_msg.h), and its socket to the
 * supervisor. Called by main.c. The process ends with either. */
#pragma once

#include "get.h"

struct pull_channel;

/* sock and control are taken over; control may be -1. NULL: *e says why. */
struct pull_channel *pull_channel_new(const struct get_means *means, int sock, int control,
				      struct err *e) MUST_USE;
void pull_channel_free(struct pull_channel *c);
