// Empty: the target that owns the precompiled headers of all test programs needs a source.
