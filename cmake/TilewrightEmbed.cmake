# tw_embed_files(target ROOT dir SYMBOL name FILES a b …)
# Embeds text files into `target` by .incbin and generates an index header
# <build>/embedded/<symbol>.inc with one line per file:
#   {"path/relative/to/ROOT", begin, end},
# between declarations of the symbols. Editing a file reassembles and relinks only.
function(tw_embed_files target)
  cmake_parse_arguments(arg "" "ROOT;SYMBOL" "FILES" ${ARGN})
  set(dir "${CMAKE_CURRENT_BINARY_DIR}/embedded")
  set(asm "${dir}/${arg_SYMBOL}.S")
  set(inc "${dir}/${arg_SYMBOL}.inc")
  set(asm_text "  .section .note.GNU-stack,\"\",@progbits\n  .section .rodata\n")
  set(declarations "")
  set(rows "")
  set(absolute_files "")
  set(index 0)
  foreach(file IN LISTS arg_FILES)
    set(symbol "tw_embedded_${arg_SYMBOL}_${index}")
    set(path "${arg_ROOT}/${file}")
    list(APPEND absolute_files "${path}")
    string(APPEND asm_text
      "  .global ${symbol}_begin\n  .global ${symbol}_end\n  .hidden ${symbol}_begin\n"
      "  .hidden ${symbol}_end\n${symbol}_begin:\n  .incbin \"${path}\"\n${symbol}_end:\n  .byte 0\n")
    string(APPEND declarations "extern \"C\" const char ${symbol}_begin[];\nextern \"C\" const char ${symbol}_end[];\n")
    string(APPEND rows "    {\"${file}\", ${symbol}_begin, ${symbol}_end},\n")
    math(EXPR index "${index} + 1")
  endforeach()
  file(GENERATE OUTPUT "${asm}" CONTENT "${asm_text}")
  file(GENERATE OUTPUT "${inc}"
    CONTENT "${declarations}\ninline constexpr EmbeddedFile k_${arg_SYMBOL}[] = {\n${rows}};\n")
  set_source_files_properties("${asm}" PROPERTIES GENERATED TRUE OBJECT_DEPENDS "${absolute_files}")
  target_sources(${target} PRIVATE "${asm}")
  target_include_directories(${target} PRIVATE "${dir}")
endfunction()
