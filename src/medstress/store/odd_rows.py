"""Where `interpreting` was; `medstress.store.opening` has it."""

from medstress.store.opening import interpreting as interpreting
