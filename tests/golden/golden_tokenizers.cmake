# SPDX-License-Identifier: MIT
add_test(NAME golden_tokenizers COMMAND golden_tokenizers ${MICA_SHARED_DIR}/data/tokenizers)
set_tests_properties(golden_tokenizers PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS "golden;text")
