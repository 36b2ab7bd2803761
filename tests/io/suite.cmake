# Unpacks the whole JSONTestSuite for json_test where the outside test data is present.
# SPDX-License-Identifier: MIT
set(json_suite_archive ${MICA_SHARED_DIR}/data/conformance/JSONTestSuite.tar.xz)
set(json_suite_dir ${CMAKE_BINARY_DIR}/tests/JSONTestSuite)
if(TARGET json_test AND EXISTS ${json_suite_archive})
  if(NOT EXISTS ${json_suite_dir}/test_parsing)
    file(ARCHIVE_EXTRACT INPUT ${json_suite_archive} DESTINATION ${json_suite_dir})
  endif()
  target_compile_definitions(json_test PRIVATE MICA_JSON_SUITE_DIR="${json_suite_dir}/test_parsing")
endif()
