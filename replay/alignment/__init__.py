"""Two runs laid side by side: the best pairs of their actions, and the rows made of them."""
