/* oci_ecr.h - registries of AWS by their names: which region they are in, and the host of the API
 * that gives out their passwords. Pure. For cordond, which refuses credentials of AWS for other
 * registries, and for cordon-pull, which asks that API. */
#pragma once

#include <stdbool.h>

#define OCI_ECR_REGION_MAX 32 /* both with NUL */
#define OCI_ECR_API_MAX 80

struct oci_ecr {
	char region[OCI_ECR_REGION_MAX];
	char api[OCI_ECR_API_MAX];
};

/* ACCOUNT.dkr.ecr.REGION.amazonaws.com, the same with ecr-fips, and with .cn behind it. False: not
 * such a registry. */
bool oci_ecr_read(const char *host, struct oci_ecr *ret);
