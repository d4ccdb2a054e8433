/* The end of attention on any device; see lib/attend_fold.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "attend_fold.glsl"
