# SPDX-License-Identifier: MIT
add_test(NAME golden_templates COMMAND golden_templates ${MICA_SHARED_DIR}/data/chat-templates)
set_tests_properties(golden_templates PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS "golden;text")
# The folder of what Jinja2 made alone: its templates lie beside it.
add_test(NAME golden_templates_alone COMMAND golden_templates ${MICA_SHARED_DIR}/data/chat-templates/golden)
set_tests_properties(golden_templates_alone PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 300 LABELS "golden;text")
