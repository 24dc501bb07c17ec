// SPDX-License-Identifier: MIT OR Apache-2.0

/* The numbers of docs/protocol.md, by its sections. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdint.h>

#define VERSION_MAJOR 4u
#define VERSION_MINOR 0u

/* 1. The virtio device */
#define CONFIG_MAGIC "BLHPvGPU"
#define FEATURE_USER_MODE_SUBMISSION (1ull << 0)
#define FEATURE_NATIVE_FENCES (1ull << 4)

/* 3. Doorbells: the lower half of the status word */
enum connection_status {
    CONNECTED = 0,
    CONNECTED_NOTIFY = 1,
    DISCONNECTED_RETRY = 2,
    DISCONNECTED_ABORT = 3,
};

/* 5. Packets: opcode, and length in units of 8 bytes */
#define PACKET_NOP 0x00u
#define PACKET_INDIRECT_BUFFER 0x01u
#define PACKET_COPY 0x11u
#define PACKET_SIGNAL_FENCE 0x20u

/* 6. Requests */
#define HEADER_SIZE 16u
#define MAX_REQUEST 65536u
#define NOWHERE_IN_BAR UINT64_MAX

enum request_code {
    OPEN_ADAPTER = 0x01,
    GET_NODE_METADATA = 0x02,
    QUERY_USER_MODE_SUBMISSION_CAPS = 0x03,
    QUERY_STATISTICS = 0x04,
    CREATE_PROCESS = 0x10,
    DESTROY_PROCESS = 0x11,
    CREATE_DEVICE = 0x20,
    CREATE_CONTEXT = 0x30,
    CREATE_HW_QUEUE = 0x38,
    SUBMIT_COMMAND = 0x3A,
    CREATE_ALLOCATION = 0x40,
    DESTROY_ALLOCATION = 0x41,
    MAP_GPU_VIRTUAL_ADDRESS = 0x48,
    FREE_GPU_VIRTUAL_ADDRESS = 0x49,
    WAIT_FOR_FENCES = 0x52,
    SIGNAL_FENCES = 0x54,
    CREATE_DOORBELL = 0x60,
    CONNECT_DOORBELL = 0x61,
    NOTIFY_WORK_SUBMISSION = 0x63,
};

#define CAPS_GLOBAL_DOORBELL (1u << 1)
#define QUEUE_USER_MODE_SUBMISSION (1u << 0)
#define QUEUE_NATIVE_PROGRESS_FENCE (1u << 1)
#define ALLOCATION_LOCAL 0u
#define ALLOCATION_SYSTEM 1u
#define PROTECTION_WRITE 1u
#define NOTIFY_EACH_SUBMISSION 1u

struct request_header {
    uint32_t code;
    uint32_t length;
    uint32_t process;
    uint32_t reserved;
};

struct reply_header {
    uint32_t status;
    uint32_t length;
    uint64_t detail;
};

struct open_adapter {
    uint16_t major, minor;
    uint32_t reserved;
    uint64_t features;
};

struct adapter_info {
    uint16_t major, minor;
    uint32_t nodes;
    uint64_t features;
    uint64_t local_memory;
    uint64_t flags;
};

struct get_node_metadata {
    uint32_t node, reserved;
};

struct node_metadata {
    uint32_t engine_type;
    uint32_t flags;
    char name[32];
};

struct submission_caps {
    uint32_t flags;
    uint32_t doorbell_size;
    uint32_t secondary_doorbell_size;
    uint32_t physical_doorbells;
};

struct create_process_reply {
    uint32_t process, reserved;
};

struct create_context {
    uint64_t device;
    uint32_t node, reserved;
};

struct create_hw_queue {
    uint64_t context;
    uint32_t flags, reserved;
};

struct fence {
    uint64_t handle;
    uint64_t bar_offset;
    uint64_t current_value_va;
    uint64_t monitored_value_va;
    uint32_t slot, reserved;
};

struct create_hw_queue_reply {
    uint64_t handle;
    struct fence progress_fence;
    uint64_t waits_log_va;
    uint64_t signals_log_va;
    uint32_t log_entries, reserved;
};

struct submit_command {
    uint64_t hw_queue;
    uint64_t address;
    uint64_t progress_value;
    uint32_t size, reserved;
};

struct create_allocation {
    uint64_t device;
    uint64_t size;
    uint32_t kind;
    uint32_t extents;
    uint32_t paged[6]; /* 0 unless it is paged */
};

struct extent {
    uint64_t address, length;
};

struct create_allocation_reply {
    uint64_t handle;
    uint64_t bar_offset;
};

struct map_gpu_virtual_address {
    uint64_t allocation;
    uint64_t base;
    uint64_t offset;
    uint64_t size;
    uint32_t protection, reserved;
};

struct free_gpu_virtual_address {
    uint64_t address, size;
};

struct wait_for_fences {
    uint64_t cookie;
    uint32_t flags, count;
};

struct signal_fences {
    uint32_t count, reserved;
    uint64_t fence, value;
};

struct create_doorbell {
    uint64_t hw_queue;
    uint64_t ring_buffer;
    uint64_t ring_control;
    uint64_t reserved;
    uint32_t private_data;
    uint32_t reserved_too[3];
};

struct create_doorbell_reply {
    uint64_t handle;
    uint64_t doorbell_offset;
    uint64_t status_offset;
    uint64_t last_queued_offset;
    uint32_t ring_tag, reserved;
};

struct connect_doorbell_reply {
    uint32_t status, reserved;
};

_Static_assert(sizeof(struct create_hw_queue_reply) == 72, "6: CREATE_HW_QUEUE's reply");
_Static_assert(sizeof(struct create_allocation) == 48, "6: CREATE_ALLOCATION");
_Static_assert(sizeof(struct map_gpu_virtual_address) == 40, "6: MAP_GPU_VIRTUAL_ADDRESS");
_Static_assert(sizeof(struct create_doorbell) == 48, "6: CREATE_DOORBELL");
_Static_assert(sizeof(struct create_doorbell_reply) == 40, "6: CREATE_DOORBELL's reply");

/* 8. Statuses */
enum status {
    SUCCESS = 0x00000000,
    DEVICE_BUSY = (int)0x80000011,
    ACCESS_VIOLATION = (int)0xC0000005,
    INVALID_HANDLE = (int)0xC0000008,
    INVALID_PARAMETER = (int)0xC000000D,
    INVALID_DEVICE_REQUEST = (int)0xC0000010,
    CONFLICTING_ADDRESSES = (int)0xC0000018,
    BUFFER_TOO_SMALL = (int)0xC0000023,
    OBJECT_TYPE_MISMATCH = (int)0xC0000024,
    REVISION_MISMATCH = (int)0xC0000059,
    NOT_SUPPORTED = (int)0xC00000BB,
    INVALID_BUFFER_SIZE = (int)0xC0000206,
    GRAPHICS_NO_VIDEO_MEMORY = (int)0xC01E0100,
    GRAPHICS_ALLOCATION_BUSY = (int)0xC01E0102,
};

#endif
