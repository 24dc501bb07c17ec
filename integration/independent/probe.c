// SPDX-License-Identifier: MIT OR Apache-2.0

/* What the device is: protocol.md, 1 and 6. */
#include "failure.h"
#include "words.h"
#include "work.h"

#include <stdio.h>

void probe(struct driver *driver)
{
    const uint8_t *config = driver->guest->config;
    if (get16(config + 8) != VERSION_MAJOR || get32(config + 12) != driver->adapter.nodes)
        fail("configuration space and OPEN_ADAPTER do not agree");
    printf("probe: version %u.%u, %u doorbells, %u fences, features 0x%llx, nodes:",
           driver->adapter.major, driver->adapter.minor, get32(config + 24), get32(config + 28),
           (unsigned long long)driver->adapter.features);
    for (uint32_t node = 0; node < driver->adapter.nodes; node++) {
        struct get_node_metadata get = {.node = node};
        struct node_metadata metadata;
        control_call(&driver->control, GET_NODE_METADATA, 0, &get, sizeof get, &metadata,
                     sizeof metadata);
        printf(" %.32s%s", metadata.name, node + 1 < driver->adapter.nodes ? "," : "\n");
    }
}
