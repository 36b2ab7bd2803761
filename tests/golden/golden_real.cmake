# SPDX-License-Identifier: MIT
add_test(NAME golden_real COMMAND golden_real ${MICA_SHARED_DIR}/golden/real)
set_tests_properties(golden_real PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS "golden;models;slow;real")
