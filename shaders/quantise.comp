/* Rows of floats to A8 on any device; see lib/quantise.glsl. */
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#include "quantise.glsl"
