# golden_<what> DIR: walks a folder of expected results and runs every case below it.
# SPDX-License-Identifier: MIT
file(GLOB golden_programs CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/golden_*.c)
foreach(file ${golden_programs})
  get_filename_component(name ${file} NAME_WE)
  mica_test(${name} ${file})
endforeach()

# Where each program's cases are, below the outside test data.
set(golden_folder_models golden/models)
set(golden_folder_ops golden/ops)
set(golden_folder_tokenizers data/tokenizers)
set(golden_folder_templates data/chat-templates/golden)
foreach(what models ops tokenizers templates)
  if(TARGET golden_${what})
    add_test(NAME golden_${what} COMMAND golden_${what} ${MICA_SHARED_DIR}/${golden_folder_${what}})
    set_tests_properties(golden_${what} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 600 LABELS "golden;${what}")
  endif()
endforeach()
