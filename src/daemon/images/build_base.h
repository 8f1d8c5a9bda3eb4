/* build_base.h - images that stand for templates of this server: the setting image_alias. Pure. */
#pragma once

#include <stdbool.h>

#include "daemon/store/store.h"

/* The template that an image means by the list "IMAGE=TEMPLATE,...". Tag, digest, "docker.io/" and
 * "library/" of the image do not count. False: none. */
bool image_alias_find(const char *list, const char *image, char ret[STORE_NAME_MAX]);
