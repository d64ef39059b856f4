"""Wrong repairs, so that the certificate can be tested: none of them may ever be called safe."""
