/* file_event.h - events of files that clients changed: written, moved, removed. Called by
 * file_call.c, so that every interface has them. */
#pragma once

#include "front/web/request.h"

struct session;

#define FILE_EVENT_PATH_MAX 768 /* bytes kept of each path, two at most */

/* The change that a built-in of these arguments makes, NULL if it changes no file. Freed by the
 * caller. Values of secrets are covered. */
struct file_event;
struct file_event *file_event_new(const struct session *s, const char *const *argv, unsigned argc);
/* The built-in has succeeded: append the event. */
void file_event_append(struct request *r, const struct file_event *v);
