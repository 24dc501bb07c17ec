// SPDX-License-Identifier: MIT OR Apache-2.0
// What mpv draws with the GPU in place of its video: a Julia set that changes from frame to frame.

//!HOOK OUTPUT
//!BIND HOOKED
//!DESC a Julia set
vec4 hook() {
    vec2 place = (HOOKED_pos - 0.5) * vec2(HOOKED_size.x / HOOKED_size.y, 1.0) * 2.4;
    float turn = 0.35 + float(frame) * 0.02;
    vec2 constant = 0.7885 * vec2(cos(turn * 0.9 + 2.2), sin(turn * 0.9 + 2.2));
    float steps = 0.0;
    for (int i = 0; i < 96 && dot(place, place) < 64.0; i++) {
        place = vec2(place.x * place.x - place.y * place.y, 2.0 * place.x * place.y) + constant;
        steps += 1.0;
    }
    float smooth_steps = steps - log2(max(log2(max(dot(place, place), 1.01)), 0.01));
    vec3 colour = 0.5 + 0.5 * cos(6.2832 * (smooth_steps * 0.035 + vec3(0.55, 0.65, 0.8)));
    return vec4(steps < 96.0 ? colour : vec3(0.02, 0.02, 0.06), 1.0);
}
