# SPDX-License-Identifier: MIT
# Once at the machine's own feature level, once with the scalar kernels.
foreach(level host scalar)
  add_test(NAME golden_ops_${level} COMMAND golden_ops ${MICA_SHARED_DIR}/golden/ops)
  set_tests_properties(golden_ops_${level} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS "golden;ops")
endforeach()
set_property(TEST golden_ops_scalar APPEND PROPERTY ENVIRONMENT MICA_ISA=scalar)
