# SPDX-License-Identifier: MIT
add_test(NAME golden_models COMMAND golden_models ${MICA_SHARED_DIR}/golden/models)
set_tests_properties(golden_models PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900 LABELS "golden;models")
